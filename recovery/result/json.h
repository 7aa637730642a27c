// JSON: a result as one document; docs/json.md is its schema. Every key is always there, in the same order.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "recovery/result/result.h"

namespace crashcut::result {

inline constexpr int kJsonFormat = 3;

// `crashcut` is the command as the user typed it. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(const Result& result, const std::string& crashcut);
// One program under several models: a list.
std::string json_text(const std::vector<Result>& rows, const std::string& crashcut);

// The same with as many operations as a page lists (page.h).
nlohmann::ordered_json page_json(const Result& result, const std::string& crashcut);

// A story that one process sends to another, with all operations.
nlohmann::ordered_json to_json(const Story& story);
Story story_from_json(const nlohmann::ordered_json& json);

}  // namespace crashcut::result
