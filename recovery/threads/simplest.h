// Which of two executions with a violation is easier to follow: the one with fewer failures of machines, then with
// fewer steps that caches take by themselves, then with fewer switches between threads, then the shorter one. Without
// machines, the shorter one.
#pragma once

#include <vector>

#include "scheduler/runtime/real_program.h"

namespace crashcut::recovery {

std::size_t failures_in(const scheduler::Execution& execution,
                        const std::vector<scheduler::runtime::ActorName>& actors);
bool is_simpler(const scheduler::Execution& execution, const scheduler::Execution& other,
                const std::vector<scheduler::runtime::ActorName>& actors, bool has_machines);

}  // namespace crashcut::recovery
