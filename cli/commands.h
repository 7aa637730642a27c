// Commands: each adds itself to the command line and, when called, sets the exit code.
//
// Exit codes: 0 nothing found, 1 violation, 2 wrong use, 3 bound hit with nothing found, 4 crashcut's own failure.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>
#include <tl/expected.hpp>

#include "recovery/inprocess/session.h"

namespace crashcut::cli {

inline constexpr const char* kExitCodes =
    "Exit codes: 0 nothing found, 1 violation, 2 wrong use, 3 bound hit with nothing found,\n"
    "            4 crashcut's own failure";

void add_run_command(CLI::App& app, int& exit_code);
void add_replay_command(CLI::App& app, int& exit_code);
void add_compare_command(CLI::App& app, int& exit_code);
void add_check_command(CLI::App& app, int& exit_code);
void add_mark_command(CLI::App& app, int& exit_code);
void add_mount_command(CLI::App& app, int& exit_code);
void add_crash_command(CLI::App& app, int& exit_code);
void add_threads_command(CLI::App& app, int& exit_code);
// One schedule of a threaded program again; for crashcut replay.
tl::expected<int, inprocess::Failure> replay_thread_token(const std::string& token, std::chrono::seconds recovery_limit,
                                                          bool is_loud);

// How the user called us; main() sets it.
std::string& our_name();

// Prints the sentence on stderr; returns the exit code.
int report_failure(const inprocess::Failure& failure);

}  // namespace crashcut::cli
