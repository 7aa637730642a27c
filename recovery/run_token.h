// Tokens of crashcut run, and what all tokens of programs have in common.
#pragma once

#include <cstdint>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/plan.h"
#include "recovery/result/failure.h"
#include "recovery/result/token.h"

namespace crashcut::recovery {

// The command of a plan with persistent memory, and of one without.
inline constexpr const char* kMemoryCommand = "pmem";
inline constexpr const char* kRunCommand = "run";
inline const char* command_of(const Plan& plan) { return plan.memory ? kMemoryCommand : kRunCommand; }

// Program, starting state, model, crashes in a row and seed of a plan.
result::Token token_of(const std::string& command, const Plan& plan);
// The plan of a token, but for what belongs to this run: program, executable, runtime, jobs.
tl::expected<Plan, result::Failure> plan_of(const result::Token& token);

// The options of crashcut replay that find what a token names by the last part of its path only.
std::string replay_options(const Plan& plan);

}  // namespace crashcut::recovery
