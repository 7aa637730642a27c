// Machines: crashcut cxl, and what it shares with crashcut threads and crashcut replay.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "recovery/result/token.h"
#include "recovery/threads/token.h"

namespace crashcut::cli {

// Runs a schedule again; the exit code.
tl::expected<int, result::Failure> replay_schedule(const recovery::ThreadPlan& plan, const recovery::ThreadToken& token,
                                                   bool is_loud);
// The same for a token of crashcut cxl. Its programs are looked for in `directory`, too.
tl::expected<int, result::Failure> replay_cxl_token(const result::Token& token, const std::string& directory,
                                                    bool is_loud);

}  // namespace crashcut::cli
