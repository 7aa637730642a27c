// What crashcut conform found, as the result that every command reports; and the tokens of its findings.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/conform_state.h"
#include "recovery/search/check.h"

namespace crashcut::cli {

inline constexpr const char* kConformCommand = "conform";

result::Head head_of(const ConformPlan& plan, std::uint32_t jobs, double time_s);

// `directory` has the images of the findings; empty: there are none.
result::Result result_of(const ConformState& state, const result::Head& head, result::Bound bound,
                         const std::string& directory);

// A finding again.
struct ConformToken {
  std::string image;  // the file
  ConformSetup setup;
  std::vector<std::string> words, marks;
};
// `directory` is where the image is; empty: it is looked for.
tl::expected<ConformToken, result::Failure> read_conform_token(const result::Token& token,
                                                               const std::string& directory);

// Mounts the image of a finding again, and compares what it shows with what the model allows. Prints what it looks at.
tl::expected<search::Replayed, result::Failure> replay_conform_token(const result::Token& token,
                                                                     const std::string& directory);

}  // namespace crashcut::cli
