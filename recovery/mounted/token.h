// Tokens of crashcut check. The recording is not in the token but in the directory of the results; docs/tokens.md.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "recovery/mounted/plan.h"
#include "recovery/mounted/question.h"
#include "recovery/result/token.h"

namespace crashcut::mounted {

// A checksum of 32 bits of the trace in a directory of results.
std::uint64_t sum_of_trace(const std::string& directory);
// By what a recording is found again. The search adds the path.
result::Token token_of(const CheckPlan& plan, std::uint64_t trace_sum, const Question& question);

struct CheckToken {
  result::Token token;
  CheckPlan plan;  // without bounds
  Question question;
};
// Where the results are that the token was made from. `directory` says it; empty: they are looked for by the token's
// name for them and in crashcut.out, in the current directory.
tl::expected<std::string, Failure> find_recording(const result::Token& token, const std::string& directory);
tl::expected<CheckToken, Failure> read_token(const result::Token& token, const std::string& directory);
// The options of crashcut replay by which a directory is found that is not below the current one.
std::string replay_options(const std::string& directory);

}  // namespace crashcut::mounted
