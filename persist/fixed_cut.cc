#include "persist/fixed_cut.h"

namespace crashcut::persist {

FixedCut::FixedCut(const Log& log, std::span<const EventId> events) : log_(log), in_(log.event_count()) {
  for (const EventId event : events) {
    if (event < in_.size()) in_[event] = true;
  }
}

// One pass: the order follows the numbers.
void FixedCut::drop(EventId event) {
  if (event >= in_.size()) return;
  std::vector<bool> dropped(in_.size());
  dropped[event] = true;
  for (EventId e = event; e < in_.size(); ++e) {
    // Of a barrier, the one before it.
    const BarrierId epoch = log_.barrier_of(e) != 0 ? log_.epoch(e) - 1 : log_.epoch(e);
    if (epoch != 0 && dropped[log_.barrier_event(epoch)]) dropped[e] = true;
    for (const EventId p : log_.predecessors(e)) {
      if (dropped[p]) dropped[e] = true;
    }
    log_.for_each_fence_below(e, [&](EventId fence) {
      if (dropped[fence]) dropped[e] = true;
    });
    if (!dropped[e]) continue;
    in_[e] = false;
    const BarrierId cover = log_.cover(e);
    if (cover != kNoBarrier && cover != 0) dropped[log_.barrier_event(cover)] = true;
  }
}

std::uint32_t FixedCut::choose(const Choice& choice) {
  for (std::uint32_t i = 0; i < choice.candidates.size(); ++i) {
    const auto history = choice.log.history(choice.candidates[i].location);
    const auto first = choice.candidates[i].first;
    for (std::int32_t at = choice.candidates[i].last; at >= first; --at) {
      if (at < 0 || in_[history[static_cast<std::size_t>(at)].event]) return i;
    }
  }
  return static_cast<std::uint32_t>(choice.candidates.size()) - 1;
}

}  // namespace crashcut::persist
