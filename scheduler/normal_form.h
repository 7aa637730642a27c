// Normal form: a hash that is the same for executions that lead into each other by swaps of neighbouring steps, where a
// post and a wait of one semaphore may be swapped too while the count is above zero (foresight.h says why).
//
// Executions are put in order step by step: next comes the first of what can be moved to the front. Counts are kept
//   high, so that more things commute: posts come before all others, then what is no plain wait; a wait comes, where
//   it can be had, together with all that its actor does up to its next post.
// Equal hashes mean that swaps lead from one to the other. Where swaps do, hashes mostly are equal, but need not be.
// Cost: of n steps by m actors about n (m + log n). Execution by execution it must cost less than running the program.
#pragma once

#include "scheduler/execution.h"

namespace crashcut::scheduler {

// A post or a wait of a semaphore, and nothing besides.
bool is_plain_post(const Operation& x);
bool is_plain_wait(const Operation& x);

std::uint64_t normal_form(const Execution& execution);

}  // namespace crashcut::scheduler
