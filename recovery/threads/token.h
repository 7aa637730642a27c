// ThreadToken: all that it takes to run one schedule of a threaded program again. docs/tokens.md has the bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/result/token.h"
#include "recovery/threads/check.h"

namespace crashcut::recovery {

struct ThreadToken {
  bool is_reduced = true;                               // the execution stood for all of its class
  bool is_strict_exit = false, ignores_result = false;  // as in the plan
  std::uint32_t spurious_most = 0;
  std::uint32_t timeouts_most = 0;
  std::vector<std::pair<scheduler::PrimitiveId, std::int64_t>> policies;
  std::vector<scheduler::runtime::ActorName> actors;
  std::vector<scheduler::ActorId> schedule;
  std::vector<std::uint64_t> racy;
  std::uint64_t fingerprint = 0;        // fingerprint_of() the finding
  Plan crash;                           // program, arguments, starting state, model, crashes in a row, seed
  std::optional<CrashReplay> recovery;  // then one recovery
};

// Of what the threads did and how it ended: another program has another one.
std::uint64_t fingerprint_of(const ThreadFinding& finding);
ThreadToken make_token(const ThreadPlan& plan, const ThreadFinding& finding);
// A plan without what belongs to this run: program, executable, runtime.
ThreadPlan plan_of(const ThreadToken& token);
std::string encode(const ThreadToken& token);
tl::expected<ThreadToken, result::Failure> read_thread_token(const result::Token& token);

}  // namespace crashcut::recovery
