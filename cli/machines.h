// What crashcut cxl, crashcut threads, crashcut pmem and crashcut replay share.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "cli/options.h"
#include "cli/program.h"
#include "recovery/result/token.h"
#include "recovery/threads/token.h"

namespace crashcut::cli {

// What searches of schedules have in common.
void add_execution_bounds(CLI::App& command, recovery::ThreadPlan& plan, Options& common);
void add_schedule_options(CLI::App& command, recovery::ThreadPlan& plan, Options& common);
// A plan without its program: `schedules` says how they are searched, `common` all else.
tl::expected<recovery::ThreadPlan, result::Failure> make_thread_plan(const recovery::ThreadPlan& schedules,
                                                                     const Options& common);

// How the source of the plan's program is compiled.
Program::Compiled how_compiled(const recovery::ThreadPlan& plan);
// --schedules one|seeds:N|random:N|all, for models of memory; `text` is what was given. seeds:N is for machines.
void add_schedules_option(CLI::App& command, std::string& text, bool takes_seeds = false);
tl::expected<void, result::Failure> read_schedules(const std::string& text, recovery::ThreadPlan& plan);
// Searches, shows progress, and reports; the exit code. The plan is complete, its program prepared, the results opened.
tl::expected<int, result::Failure> search_schedules(ReportOptions reports, const recovery::ThreadPlan& plan,
                                                    const std::vector<std::string>& words,
                                                    const recovery::ThreadRest* rest = nullptr);
// Whether --resume is to go on with a search of schedules.
bool is_rest_of_schedules(std::string_view text);
// Goes on with such a search of crashcut `command`, in the directory of its results; the exit code. Bounds that are
// given are those of this run, others those that the search had; 0 executions: not given.
tl::expected<int, result::Failure> resume_schedules(std::string_view command, const std::string& directory,
                                                    const Options& bounds, std::uint64_t executions_most);

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
