// Comparison report: results of one program under several models, as one table.
#pragma once

#include <string>
#include <vector>

#include "recovery/check.h"

namespace crashcut::recovery {

struct Comparison {
  Plan plan;
  Result result;
};

std::string report_comparison_start(const std::vector<std::string>& words, const Plan& plan, std::size_t plan_count);
// A row a model; below it, where outcomes are few, which model gives which.
std::string report_comparison(const std::vector<Comparison>& rows);
std::string report_comparison_end(const std::vector<Comparison>& rows, std::size_t plan_count);
// The worst of them; bounded where models are missing.
Verdict verdict_of(const std::vector<Comparison>& rows, std::size_t plan_count);

}  // namespace crashcut::recovery
