// JUnit: a result as the XML that CI systems read: one test case for each thing that was asked about.
#pragma once

#include <string>

#include "recovery/result/result.h"

namespace crashcut::result {

// `crashcut` is how the command is called there.
std::string junit_text(const Result& result, const std::string& crashcut);

}  // namespace crashcut::result
