// Check: a recorded program under one model: every question asked of every crash state, the smallest violation told.
#pragma once

#include <optional>

#include "recovery/check.h"
#include "recovery/mounted/plan.h"
#include "recovery/mounted/pool.h"
#include "recovery/mounted/record.h"
#include "recovery/result/token.h"

namespace crashcut::mounted {

struct Counterexample {
  ViolationKey key;
  Told told;
  bool is_smallest = false;  // no event of its cut can be dropped
  bool replays = true;       // it came out the same when it was run again
  bool is_of_checker = false;
  std::string sentence;  // in words: what a crash can leave, and why
};

struct CheckResult {
  result::Verdict verdict = result::Verdict::kVerified;
  Explored explored;
  std::vector<Question> questions;
  std::size_t operation_count = 0;
  std::size_t event_count = 0;
  bool trace_is_complete = true;
  bool was_stopped = false;  // the program, by --program-limit
  std::optional<Counterexample> counterexample;
  std::string token;
};

tl::expected<CheckResult, Failure> check(const CheckPlan& plan, const PoolHooks& hooks);

// One recovery again. The trace must be the one that the token was made from.
struct Token {
  std::string directory;  // of the results
  std::uint64_t trace_sum = 0;
  fusefs::ModelOptions model;
  Question question;
  CommandLine checker;
  std::uint32_t depth = 1;
  std::chrono::seconds check_limit{30};
  std::vector<std::uint32_t> path;
};
// CRC-32 of the trace in a directory of results.
std::uint64_t sum_of_trace(const std::string& directory);
std::string encode(const Token& token);
// The options of crashcut replay by which a directory is found that is not below the current one.
std::string replay_options(const std::string& directory);
// `directory` is where the results are; empty: they are looked for by the token's name for it and in crashcut.out, in
// the current directory.
tl::expected<Token, Failure> read_token(const result::Token& token, const std::string& directory);

tl::expected<Counterexample, Failure> replay(const Token& token);
// Opens the user's shell in the state.
tl::expected<int, Failure> open_shell(const Token& token);
// Writes the state out as a plain tree.
tl::expected<void, Failure> write_image(const Token& token, const std::string& directory);

}  // namespace crashcut::mounted
