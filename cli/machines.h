// What crashcut cxl, crashcut threads and crashcut replay share.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <tl/expected.hpp>

#include "cli/options.h"
#include "cli/program.h"
#include "recovery/result/token.h"
#include "recovery/threads/token.h"

namespace crashcut::cli {

// What searches of schedules have in common.
void add_execution_bounds(CLI::App& command, recovery::ThreadPlan& plan);
void add_schedule_options(CLI::App& command, recovery::ThreadPlan& plan, Options& common);

// Runs a schedule again; the exit code.
tl::expected<int, result::Failure> replay_schedule(const recovery::ThreadPlan& plan, const recovery::ThreadToken& token,
                                                   bool is_loud);
// The same for a token of crashcut cxl. Its programs are looked for in `directory`, too.
tl::expected<int, result::Failure> replay_cxl_token(const result::Token& token, const std::string& directory,
                                                    bool is_loud);

// The programs of such a token, made ready for the plan that it holds. They are there as long as what is returned.
tl::expected<std::map<std::string, Program>, result::Failure> prepare_cxl_token(recovery::ThreadPlan& plan,
                                                                                const result::Token& token,
                                                                                const std::string& directory);

}  // namespace crashcut::cli
