// Commands: each adds itself to the command line and, when called, sets the exit code.
//
// Exit codes: 0 nothing found, 1 violation, 2 wrong use, 3 bound hit with nothing found, 4 crashcut's own failure.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>
#include <tl/expected.hpp>

#include "recovery/result/failure.h"
#include "recovery/result/token.h"

namespace crashcut::cli {

inline constexpr const char* kExitCodes =
    "Exit codes: 0 nothing found, 1 violation, 2 wrong use, 3 bound hit with nothing found,\n"
    "            4 crashcut's own failure";

void add_run_command(CLI::App& app, int& exit_code);
void add_pmem_command(CLI::App& app, int& exit_code);
void add_replay_command(CLI::App& app, int& exit_code);
void add_compare_command(CLI::App& app, int& exit_code);
void add_check_command(CLI::App& app, int& exit_code);
void add_conform_command(CLI::App& app, int& exit_code);
void add_mark_command(CLI::App& app, int& exit_code);
void add_mount_command(CLI::App& app, int& exit_code);
void add_crash_command(CLI::App& app, int& exit_code);
void add_threads_command(CLI::App& app, int& exit_code);
void add_cc_command(CLI::App& app, int& exit_code);
void add_cxx_command(CLI::App& app, int& exit_code);
void add_cxl_command(CLI::App& app, int& exit_code);
void add_completion_command(CLI::App& app, int& exit_code);
// One schedule of a threaded program again; for crashcut replay.
// `named` is its program, `from_directory` what the disk starts as.
tl::expected<int, result::Failure> replay_thread_token(const result::Token& token, const std::string& named,
                                                       const std::string& from_directory,
                                                       std::chrono::seconds recovery_limit, bool is_loud);

// How the user called us; main() sets it.
std::string& our_name();

// Prints the sentence on stderr; returns the exit code.
int report_failure(const result::Failure& failure);

}  // namespace crashcut::cli
