// LeftOut: what the bounds on early timeouts and on spurious wake-ups kept out, told from the executions that were run.
//
// A search whose timers may be early only so often (timer.h) has left nothing out as long as each wait that came
//   after could not have run out: it never had to wait while somebody else could go on. That is asked of the whole
//   class of an execution, not of the one schedule that was run: whether the wait has to wait in some execution of the
//   class.
#pragma once

#include <cstdint>

#include "scheduler/execution.h"

namespace crashcut::scheduler {

// Whether a timed wait might have run out early, if so many had not before. Never false where it might; for a semaphore
// or a lock that others use meanwhile it may be true although it was always free enough.
bool leaves_out_timeout(const Execution& execution);

// Waits for condition variables that no spurious wake-up was tried for.
std::uint64_t count_unstirred_waits(const Execution& execution);

}  // namespace crashcut::scheduler
