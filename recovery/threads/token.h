// ThreadToken: all that it takes to run one schedule of a threaded program again. docs/tokens.md has the bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/result/token.h"
#include "recovery/threads/replay.h"

namespace crashcut::recovery {

struct ThreadToken {
  ThreadPlan plan;  // how the program is run; without what belongs to this run: program, executable, runtime, bounds
  Schedule schedule;
  std::uint64_t fingerprint = 0;          // fingerprint_of() the finding
  std::optional<CrashReplay> recovery{};  // then one recovery
};

// Of what the threads did and how it ended: another program has another one.
std::uint64_t fingerprint_of(const ThreadFinding& finding);
ThreadToken make_token(const ThreadPlan& plan, const ThreadFinding& finding);
std::string encode(const ThreadToken& token);
tl::expected<ThreadToken, result::Failure> read_thread_token(const result::Token& token);

}  // namespace crashcut::recovery
