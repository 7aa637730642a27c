// Reports of crashcut threads: text for people, JSON for programs (docs/json.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "recovery/report.h"
#include "recovery/threads/check.h"

namespace crashcut::recovery {

// "threads: ./a.out 3; reduction optimal; bounds: none; 2 jobs"
std::string report_threads_start(const std::string& command, const ThreadPlan& plan);
// What went wrong, the schedule that leads there, and who holds what and waits for what.
// "   3  thread 1     lock mutex forks  [dine]": one a step.
std::vector<std::string> schedule_lines(const ThreadPlan& plan, const ThreadFinding& finding);
std::string report_threads_finding(const ThreadPlan& plan, const ThreadFinding& finding, Detail detail);
// The verdict, counts and the command that replays.
std::string report_threads_end(const ThreadPlan& plan, const ThreadResult& result, const std::string& crashcut);
// What the verdict is not about, a sentence each.
std::vector<std::string> not_covered(const ThreadPlan& plan, const ThreadResult& result);
// "deadlock", "thread 2 died by SIGSEGV". Where the execution had a data race before that, the race, and then that.
std::string finding_text(const ThreadFinding& finding);
std::vector<std::string> finding_texts(const ThreadFinding& finding);
// All that was found, where it is more than one kind.
std::string report_threads_kinds(const ThreadPlan& plan, const ThreadResult& result, const std::string& crashcut);
nlohmann::json threads_to_json(const ThreadPlan& plan, const ThreadResult& result, const std::string& crashcut);

}  // namespace crashcut::recovery
