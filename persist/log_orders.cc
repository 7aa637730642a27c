// A log of which more is promised: every event is added again, with its old order and the new one.
#include "persist/check.h"
#include "persist/log.h"

namespace crashcut::persist {

// The fences below an event of `from`. The fences of both logs have the same numbers.
FenceSetId Log::add_past_of(EventId e, const Log& from) {
  FenceSetId past = kNoFences;
  from.for_each_fence_below(e, [&](EventId fence) { past = join(past, from.fence_of(fence)); });
  return past;
}

Log Log::with_orders(std::span<const Order> orders) const {
  CHECK(sealed_);
  Log log;
  for (LocationId l = 0; l < location_count(); ++l) {
    const LowerLocation lower = this->lower(l);
    lower.layer == kNoLayer ? log.add_location(initial(l)) : log.add_location_over(lower);
  }
  std::vector<EventId> after;
  for (EventId e = 0; e < event_count(); ++e) {
    after.assign(predecessors(e).begin(), predecessors(e).end());
    for (; !orders.empty() && orders.front().after == e; orders = orders.subspan(1))
      after.push_back(orders.front().before);
    if (barrier_of(e) != 0) {
      log.add_barrier(op(e), writes(e), after);
    } else if (const FenceId fence = fence_of(e); fence != 0) {
      log.add_fence(op(e), writes(e), after, fences_.scope(fence), log.add_past_of(e, *this));
    } else {
      log.add_event(op(e), writes(e), after, log.add_past_of(e, *this));
    }
  }
  CHECK(orders.empty());
  log.durable_ = durable_;
  for (const FenceId fence : fences_.members(durable_fences_))
    log.durable_fences_ = log.join(log.durable_fences_, fence);
  log.seal();
  return log;
}

}  // namespace crashcut::persist
