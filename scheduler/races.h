// Races: pairs of steps of one execution whose order another class of executions reverses.
//
// Step j races with an earlier step i of another actor if: i happens before j; the two may conflict; without i, the
//   actor of j still comes to j and j is enabled; and j does not race with a step between them that comes after i.
//   A step that was left pending at the end (blocked, or cut short by the end of the process) races too, with the steps
//   that kept it from being taken; but not if the bound on its actor's steps did.
// A step that was left pending since its host ended or failed (primitives/host.h) races with that.
// A step that a signal interrupted (primitives/signal.h) races as if the signal had not come: with the delivery of the
//   signal, and with the steps that kept it from being taken before that.
// If several actors keep j from being taken, each by itself (readers, when j is a writer), the race is with the first.
// A step by which time passed races with those that might have been taken instead (Execution::passed_over).
// Locks: a lock races with the lock before it, not with the unlock between, since it is not enabled before the unlock.
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
