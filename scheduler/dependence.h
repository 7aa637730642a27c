// Dependence: which steps keep their order in all executions of one class.
//
// Two executions are equivalent (one Mazurkiewicz class) when swaps of neighbouring steps that are not dependent
//   lead from one to the other. Equivalent executions have the same results and end in the same state.
#pragma once

#include "scheduler/primitive.h"

namespace crashcut::scheduler {

// Time passes where nobody else can go on: a step that comes after all before it, and before all after it. The state
// does not say whether it may be taken; whoever chooses does (passing_time.h).
bool waits_for_time(const Operation& x);
// With every step, whatever it touches. Two steps that do not, and have no common object, do not depend on each other.
bool depends_on_all(const Operation& x);
// Of two different actors; both executed. Disabling apart.
bool are_dependent(const Operation& x, const Operation& y);
// Whether in some state the two do not commute, or one disables the other. Results may be missing.
bool may_conflict(const Operation& x, const Operation& y);
bool is_file_call(const Operation& x);
// A call on files that is not done yet: it may do anything.
bool is_unknown(const Operation& x);
// False only where no state enables both, and for steps for want of others: whom they race with, Execution::passed_over
// says.
bool may_be_co_enabled(const Operation& x, const Operation& y);

// Whether the actor keeps others from what `x` waits for, maybe not alone (Primitive::holds).
bool holds(const State& state, ActorId actor, const Operation& x);

// Whether `step`, taken now, would commute with `done`, which led to the state `now`: the primitives say so, it is
// still enabled, and its results are what they were before.
bool still_commutes(const Step& step, const Step& done, const State& now);

}  // namespace crashcut::scheduler
