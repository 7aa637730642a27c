// Minimise: from a violating cut to one of which no event can be dropped.
//
// Among all recoveries of a complete exploration, the violation with the fewest events persisted is already
//   smallest: every violating cut C belongs to one recovery, whose certain events are a subset of C, a cut, and
//   violating too. An exploration that a bound ended may have missed smaller ones, and this finds them.
// Keeps the failure's kind and code. Cuts of later crashes (--depth 2) are left as they are.
#pragma once

#include <chrono>
#include <functional>

#include "recovery/inprocess/session.h"
#include "recovery/survey.h"

namespace crashcut::recovery {

struct Minimised {
  std::vector<std::uint32_t> path;
  bool finished = false;  // no event can be dropped
};

struct MinimiseLimit {
  std::chrono::steady_clock::time_point deadline;
  std::function<bool()> is_interrupted;
};

// `description` is session.describe().
tl::expected<Minimised, result::Failure> minimise(inprocess::Session& session, const Survey::Violation& violation,
                                                  std::string_view description, const MinimiseLimit& limit);

}  // namespace crashcut::recovery
