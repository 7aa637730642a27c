// JSON report: a result as one JSON document; docs/json.md says what is in it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "recovery/check.h"

namespace crashcut::recovery {

nlohmann::ordered_json to_json(const Plan& plan, const Result& result);
// Parts of it, for other reports.
nlohmann::ordered_json model_to_json(const fusefs::ModelOptions& model);
nlohmann::ordered_json outcomes_to_json(const Survey& survey);
nlohmann::ordered_json counterexample_to_json(const Counterexample& example);
// The document as text. Bytes that are not UTF-8 become U+FFFD.
std::string dump(const nlohmann::ordered_json& document);

}  // namespace crashcut::recovery
