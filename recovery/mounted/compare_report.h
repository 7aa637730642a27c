// One recorded program under several models, as one table.
#pragma once

#include <string>
#include <vector>

#include "recovery/mounted/check.h"

namespace crashcut::mounted {

struct Comparison {
  CheckPlan plan;
  CheckResult result;
};

// A row a model; below it which model gives which outcome.
std::string report_comparison(const std::vector<Comparison>& rows);
// The last line. `model_count` is how many there were to be.
std::string report_comparison_end(const std::vector<Comparison>& rows, std::size_t model_count);
recovery::Verdict verdict_of(const std::vector<Comparison>& rows, std::size_t model_count);

}  // namespace crashcut::mounted
