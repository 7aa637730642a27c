// Check: one program under one model: executed once, all its recoveries explored, the smallest violation explained.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "recovery/inprocess/session.h"
#include "recovery/plan.h"
#include "recovery/result/failure.h"
#include "recovery/result/result.h"
#include "recovery/survey.h"

namespace crashcut::recovery {

// One recovery, told.
struct Account {
  FailureKind failure;  // kOk and others where it is none
  result::Story story;
  std::vector<std::uint32_t> path;
};

struct Counterexample {
  Account account;
  bool is_smallest = false;  // of its cut no event can be dropped
  bool replays = true;       // it failed the same way when it was run again
};

struct Checked {
  result::Verdict verdict = result::Verdict::kVerified;
  result::Bound bound = result::Bound::kNone;
  result::Fraction explored_fraction{1};  // where a bound was hit
  double seconds = 0;
  inprocess::Execution execution;
  Survey survey;
  std::optional<Counterexample> counterexample;
  std::string token;        // of the counterexample
  std::string unexplained;  // why there is a violation and no counterexample
};

// How the caller takes part.
struct Hooks {
  std::function<void(inprocess::Session*)> on_session;       // running now; nullptr just before it goes
  std::function<void(const result::Progress&)> on_progress;  // about ten times a second
  std::function<bool()> is_interrupted;
  int stdout_fd = -1, stderr_fd = -1;  // of main(); -1: ours
};

tl::expected<Checked, result::Failure> check(const Plan& plan, const Hooks& hooks);

// The recoveries of what the session has executed: a part of check(), for who executes by himself. No token.
tl::expected<Checked, result::Failure> check_recording(inprocess::Session& session, const Plan& plan,
                                                       const Hooks& hooks);
// One of them again.
tl::expected<Account, result::Failure> replay_recording(inprocess::Session& session,
                                                        const std::vector<std::uint32_t>& path);

// Runs main() and one recovery. A program that does not do what it did when the path was found is a user's failure.
tl::expected<Account, result::Failure> replay(const Plan& plan, std::uint64_t fingerprint,
                                              const std::vector<std::uint32_t>& path, const Hooks& hooks);

}  // namespace crashcut::recovery
