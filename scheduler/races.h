// Races: pairs of steps of one execution whose order another class of executions reverses.
//
// Step j races with an earlier step i of another actor where i happens before j, the two may conflict, j's actor
//   would stand before j without i, j is enabled then, and no step between the two, with which j races, comes after i.
//   A step that was left pending at the end (blocked, or ended with the process) races too: with what kept it, but not
//   where it was the bound on its actor's steps.
// A step that a signal interrupted (primitives/signal.h) races as if the signal had not come: with its delivery, and
// with
//   what kept it before that.
// Where several keep j from going on, each apart from the others (readers, a writer), the race is with the first of
// them. A step for want of others races with those that were passed over for it (Execution::passed_over). How locks fit
// in: a lock races with the lock before it, not with the unlock between, since before that it is not
//   enabled.
#pragma once

#include <functional>

#include "scheduler/execution.h"
#include "scheduler/order.h"

namespace crashcut::scheduler {

struct Race {
  std::size_t first;               // index of i
  State before;                    // the state before i
  std::vector<Step> reversal;      // from there: what does not happen after i, with j's step among it
  std::vector<std::size_t> taken;  // where in the execution these stand, j's step apart
};

struct RaceWork {
  std::uint64_t steps;  // that were looked at
  bool was_stopped;     // by `is_late`, which is asked now and then
};
RaceWork for_each_race(const Execution& execution, const Order& order, std::uint32_t depth_most,
                       const std::function<bool()>& is_late, const std::function<void(const Race&)>& report);

}  // namespace crashcut::scheduler
