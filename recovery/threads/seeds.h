// Several single schedules, one search after the other: ThreadPlan::seeds_most.
#pragma once

#include <tl/expected.hpp>

#include "recovery/threads/check.h"

namespace crashcut::recovery {

// Searches the schedules of the plan's seed and of those after it. After a violation no further one, unless all are
// wanted. `rest`: of such a search that was stopped; the plan's seed is the one at which it was.
tl::expected<ThreadResult, result::Failure> check_seeds(const ThreadPlan& plan, const ThreadHooks& hooks,
                                                        const ThreadRest* rest);

}  // namespace crashcut::recovery
