// JUnit: a result as the XML that CI systems read. Each subject of the result is a test case.
#pragma once

#include <string>
#include <vector>

#include "recovery/result/result.h"

namespace crashcut::result {

// `crashcut` is the command as the CI system would call it.
std::string junit_text(const Result& result, const std::string& crashcut);
// One program under several models: a test suite for each model.
std::string junit_text(const std::vector<Result>& rows, const std::string& crashcut);

}  // namespace crashcut::result
