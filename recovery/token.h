// ReplayToken: all that it takes to run one recovery again, as a short string without spaces.
//
// docs/tokens.md has the bytes. A token is input from anywhere: decode() trusts no part of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/plan.h"

namespace crashcut::recovery {

struct ReplayToken {
  std::string program;
  std::vector<std::string> arguments;
  std::string from_directory;
  fusefs::ModelOptions model;
  std::uint32_t depth = 1;
  std::uint64_t seed = 0;
  std::uint64_t fingerprint = 0;    // of the execution; another one cannot be replayed
  std::vector<std::uint32_t> path;  // the answers, inprocess::kCrashAgain between crashes
};

ReplayToken make_token(const Plan& plan, std::uint64_t fingerprint, std::vector<std::uint32_t> path);
// The plan of a token, but for what belongs to this run: executable, runtime, jobs.
Plan plan_of(const ReplayToken& token);

std::string encode(const ReplayToken& token);
// The error is a sentence.
tl::expected<ReplayToken, std::string> decode(std::string_view text);

}  // namespace crashcut::recovery
