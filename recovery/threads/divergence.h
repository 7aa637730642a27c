// Divergence: where a program did something else than before under the same schedule, in words.
#pragma once

#include <optional>
#include <string>

#include "recovery/threads/check.h"

namespace crashcut::recovery {

// The first of these steps that differ, from 0; none where they are the same. An execution that ended earlier differs
// there.
std::optional<std::size_t> first_difference(const scheduler::Execution& expected, const scheduler::Execution& found);

// "under the same schedule the program did something else than before. At step 7 thread 1 was to lock mutex m; this
// time ..." `found` has the execution that did something else, with the names of its threads. `is_by_order`: the
// schedule is repeatable, but does not lead to what executions that differ only in the order of independent steps led
// to.
std::string divergence_text(const ThreadPlan& plan, std::size_t step, const std::optional<scheduler::Step>& expected,
                            const ThreadFinding& found, bool is_by_order);

}  // namespace crashcut::recovery
