// Deadlocks that only the failure of a host (primitives/host.h) would end.
//
// A failure can always be taken, so an execution goes on by it where the program itself is stuck. But no machine has to
//   fail: the program hangs there. Such a moment need not be a prefix of the execution that was run, since failures
//   commute with most steps; it is a prefix of one of its class: all steps that do not happen after some of the
//   failures. All executions of a class have the same ones. The same holds for what else happens by itself
//   (Primitive::Traits::happens_by_itself).
// Does not look at: of an execution with more than eight such steps, prefixes without several of them that do not
//   happen after one another (may miss deadlocks).
#pragma once

#include <functional>

#include "scheduler/execution.h"

namespace crashcut::scheduler {

// Calls report() with each such prefix of the execution's class: after it no actor can go on, apart from failures, and
// an actor is left that has something to do. Its ending is kStuck.
void for_each_deadlock(const Execution& execution, const std::function<void(const Execution&)>& report);
// The same where one schedule is searched, in which no other order counts: prefixes of the execution itself.
void for_each_deadlock_of_schedule(const Execution& execution, const std::function<void(const Execution&)>& report);

}  // namespace crashcut::scheduler
