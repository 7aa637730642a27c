// Suggestions: what a mistyped word may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crashcut::cli {

// The known word that is nearest, where one is near; else empty.
std::string nearest(std::string_view word, const std::vector<std::string>& known);
// " Did you mean check?", or empty.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace crashcut::cli
