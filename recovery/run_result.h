// What crashcut run found, as a result::Result.
#pragma once

#include <string>
#include <vector>

#include "recovery/check.h"
#include "recovery/result/result.h"

namespace crashcut::recovery {

// `words` are the program and its arguments, as typed.
result::Head head_of(const std::string& command, const Plan& plan, const std::vector<std::string>& words);
result::Result result_of(const Plan& plan, const result::Head& head, const Checked& checked);

// One way to fail, and one recovery that did.
result::Finding finding_of(const FailureKind& failure, std::uint64_t count = 1);
result::Counterexample counterexample_of(const Counterexample& example);
// What recoveries gave, for reports on them.
void add_survey(const Survey& survey, result::Result& result);

}  // namespace crashcut::recovery
