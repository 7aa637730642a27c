#include "recovery/inprocess/touch_list.h"

#include <algorithm>
#include <tuple>

#include "scheduler/runtime/files.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::inprocess {

using scheduler::Touch;

void TouchList::touch(std::uint64_t key, Part part, std::uint64_t begin, std::uint64_t end) {
  const bool is_source = (part & kSource) != 0, is_target = (part & kTarget) != 0;
  // The same thing comes again and again in a row.
  if (!touches_.empty() && touches_.back() == Touch{key, begin, end, is_source, is_target}) return;
  touches_.push_back({key, begin, end, is_source, is_target});
}

// By the actor and its own count: the same in every execution in which it came to this.
fusefs::Ino TouchList::fresh_ino() {
  constexpr std::uint64_t kFirst = 11;  // ext4's
  return fusefs::Ino{kFirst + fresh_name()};
}
std::uint64_t TouchList::fresh_name() {
  return scheduler::runtime::next_ordinal() * scheduler::runtime::kActorsMost + scheduler::runtime::running_actor();
}

fusefs::Effects::Moment TouchList::now() {
  return {scheduler::runtime::running_actor(), static_cast<std::uint32_t>(scheduler::runtime::steps_so_far().size())};
}

bool TouchList::loosens() const { return scheduler::runtime::may_loosen(); }

scheduler::Footprint TouchList::take() {
  const auto place = [](const Touch& t) { return std::tie(t.key, t.begin, t.end); };
  std::sort(touches_.begin(), touches_.end(), [&](const Touch& x, const Touch& y) { return place(x) < place(y); });
  scheduler::Footprint merged;
  for (const Touch& t : touches_) {
    if (!merged.empty() && place(merged.back()) == place(t)) {
      merged.back().is_source = merged.back().is_source || t.is_source;
      merged.back().is_target = merged.back().is_target || t.is_target;
    } else {
      merged.push_back(t);
    }
  }
  touches_.clear();
  return merged;
}

}  // namespace crashcut::inprocess
