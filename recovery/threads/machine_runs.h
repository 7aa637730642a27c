// MachineRuns: explored executions of machines, told for a page: where each machine failed, what it had in its caches,
// and what of that survivors saw.
//
// They are facts of the result (docs/json.md, "facts"), and the page shows them (recovery/result/page.js).
#pragma once

#include <functional>
#include <vector>

#include "recovery/threads/check.h"

namespace crashcut::recovery {

class ThreadStory;

// The steps of an execution as a report lists them.
std::vector<result::ScheduleStep> schedule_steps(const ThreadPlan& plan, const ThreadFinding& finding,
                                                 const ThreadStory& story);

// The kept executions are run again, one after the other, until it is late: all of them if ThreadPlan::wants_all_states
// is set, or else so many that this costs little beside the search. Empty: nothing was kept.
std::vector<result::Setting> tell_machine_runs(const ThreadPlan& plan, const ThreadResult& checked,
                                               const std::function<bool()>& is_late);

}  // namespace crashcut::recovery
