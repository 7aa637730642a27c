// Tokens of crashcut check --fs kernel:... The runs are not in the token but in the directory of the results.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "recovery/kernel/plan.h"
#include "recovery/result/token.h"

namespace crashcut::kernel {

inline constexpr const char* kTokenCommand = "check --fs";

// All of the plan but its directory and its bounds, as bytes; and back. False: it makes no sense.
std::string encode_plan(const CheckPlan& plan);
bool decode_plan(const std::string& bytes, CheckPlan& plan);

result::Token token_of(const CheckPlan& plan, std::uint64_t trace_sum);
struct KernelToken {
  result::Token token;
  CheckPlan plan;  // without bounds
};
// `directory` is where the results are; empty: they are looked for as those of crashcut check are.
tl::expected<KernelToken, Failure> read_token(const result::Token& token, const std::string& directory);

}  // namespace crashcut::kernel
