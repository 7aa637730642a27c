// Tokens of crashcut check --device. The recording is not in the token but in the directory of the results.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "recovery/device/plan.h"
#include "recovery/result/token.h"

namespace crashcut::device {

inline constexpr const char* kTokenCommand = "check --device";

result::Token token_of(const CheckPlan& plan, std::uint64_t trace_sum);

struct DeviceToken {
  result::Token token;
  CheckPlan plan;  // without bounds
};
// `directory` is where the results are; empty: they are looked for as those of crashcut check are.
tl::expected<DeviceToken, Failure> read_token(const result::Token& token, const std::string& directory);

}  // namespace crashcut::device
