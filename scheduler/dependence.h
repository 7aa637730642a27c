// Dependence: which steps keep their order in all executions of one class.
//
// Two executions are equivalent (one Mazurkiewicz class) when swaps of neighbouring steps that are not dependent
//   lead from one to the other. Equivalent executions have the same results and end in the same state.
#pragma once

#include "scheduler/primitive.h"

namespace crashcut::scheduler {

// A step by which time passes. Time passes only if no actor can go on, so no other step can be moved past it. State
// does not know whether it may be taken; let_time_pass() decides that (passing_time.h).
bool waits_for_time(const Operation& x);
// Whether the step depends on every other one, whatever they touch. Two steps of other kinds that have no common
// object, footprint or host do not depend on each other.
bool depends_on_all(const Operation& x);
// The host that ends or fails by the step; kNoHost for other steps.
ObjectId host_ended_by(const Operation& x);
// Whether the step is of an actor of that host, or had another result if the host had not failed, or had.
bool depends_on_host(const Operation& x, ObjectId host);
// A failure that need not happen (primitives/host.h).
bool is_failure(const Operation& x);
// That, or what else happens by itself: nothing waits for it.
bool need_not_happen(const Operation& x);
// Whether two executed steps of different actors must keep their order. Whether one disables the other is not asked.
bool are_dependent(const Operation& x, const Operation& y);
// Whether in some state the two do not commute, or one disables the other. They need not have been executed.
bool may_conflict(const Operation& x, const Operation& y);
bool is_file_call(const Operation& x);
// A call on files that is not done yet: it may do anything.
bool is_unknown(const Operation& x);
// False only if no state enables both, and for steps by which time passes: Execution::passed_over has their races.
bool may_be_co_enabled(const Operation& x, const Operation& y);

// Whether the actor holds something that `x` waits for; others may hold it too (Primitive::holds).
bool holds(const State& state, ActorId actor, const Operation& x);

// Whether `step`, taken now, would commute with `done`, which led to the state `now`: the primitives say so, it is
// still enabled, and its results are what they were before.
bool still_commutes(const Step& step, const Step& done, const State& now);

}  // namespace crashcut::scheduler
