// Run: what crashcut run does: a program with main() and crashcut_recover() under one model: executed once, then its
// recoveries searched.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/inprocess/session.h"
#include "recovery/plan.h"
#include "recovery/search/check.h"

namespace crashcut::recovery {

// `words` are the program and its arguments, as typed.
result::Head head_of(const std::string& command, const Plan& plan, const std::vector<std::string>& words);

// How the plan's program is run.
inprocess::Session::Setup session_setup(const Plan& plan);

// main() has ended, well; or plan.time_limit was up before.
struct Executed {
  std::unique_ptr<inprocess::Session> session;
  std::chrono::duration<double> seconds{0};
  bool wants_threads = false;  // main() started a thread, and was not run to its end: schedule its threads
};
tl::expected<Executed, result::Failure> execute(const Plan& plan);

struct Checked {
  result::Result result;
  std::string rest;  // of a search that was stopped; empty where nothing is left
};
// plan.time_limit is that of the execution, too. `before` is what an earlier search of the same program left.
tl::expected<Checked, result::Failure> check(const Executed& executed, const Plan& plan, const result::Head& head,
                                             const search::Hooks& hooks, const search::Rest* before = nullptr);

// Runs main() and the recovery of the token.
tl::expected<search::Replayed, result::Failure> replay(const Plan& plan, const result::Token& token);

// A search that was stopped. The plan is without its bounds, and without what belongs to this run (plan_of()).
struct Stopped {
  Plan plan;
  result::Token token;  // has the program's absolute path
  std::vector<std::string> words;
  search::Rest rest;
};
// Checked::rest. It is input from anywhere: the error is a sentence.
tl::expected<Stopped, std::string> read_rest(const std::string& text);

}  // namespace crashcut::recovery
