// What crashcut threads found, as a result::Result.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "recovery/result/result.h"
#include "recovery/threads/check.h"

namespace crashcut::recovery {

// `words` are the program and its arguments, as typed.
result::Head head_of(const ThreadPlan& plan, const std::vector<std::string>& words);
// `crashcut` is how the user calls us. Once `is_late` says yes, source lines are not looked for any more.
result::Result result_of(const ThreadPlan& plan, const result::Head& head, const ThreadResult& checked,
                         const std::string& crashcut, const std::function<bool()>& is_late);
result::Counterexample counterexample_of(const ThreadPlan& plan, const ThreadFinding& finding,
                                         const std::function<bool()>& is_late = {});

// "deadlock", "thread 2 died by SIGSEGV". Where the execution had a data race before that, the race, and then that.
std::vector<std::string> finding_texts(const ThreadFinding& finding);
std::string finding_text(const ThreadFinding& finding);

}  // namespace crashcut::recovery
