// What crashcut check found, as a result::Result.
#pragma once

#include <string>
#include <vector>

#include "recovery/mounted/check.h"
#include "recovery/result/result.h"

namespace crashcut::mounted {

// `words` are the program and its arguments, as typed.
result::Head head_of(const std::string& command, const CheckPlan& plan, const std::vector<std::string>& words);
// How the recorded run went, a line each.
std::string recorded_text(const Recorded& recorded, const CheckPlan& plan);
result::Result result_of(const CheckPlan& plan, const result::Head& head, const Recorded& recorded,
                         const CheckResult& checked);
result::Counterexample counterexample_of(const Counterexample& example, const std::string& subject);

}  // namespace crashcut::mounted
