// Footprint: what a call on files looked at and changed, as the model of files tells it after the call.
//
// A touch is of a thing, by its key, or of a range of it: a source where others could notice the call, a target where
//   the call could notice others. Which things there are is the model's business; a thing has the same key in every
//   execution of a search.
#pragma once

#include <cstdint>
#include <vector>

namespace crashcut::scheduler {

struct Touch {
  std::uint64_t key;
  std::uint64_t begin, end;  // the range; end is not in it
  bool is_source, is_target;
  bool operator==(const Touch&) const = default;
};

// Sorted by key.
using Footprint = std::vector<Touch>;

// Whether the two calls must keep their order: a source of one meets a target of the other.
bool do_meet(const Footprint& x, const Footprint& y);
// The same for all callers with the same content; never freed, so that executions can be kept cheaply.
const Footprint* interned(Footprint footprint);

}  // namespace crashcut::scheduler
