// Options: what run and compare have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/reports.h"
#include "recovery/plan.h"

namespace crashcut::cli {

// As typed.
struct Options {
  std::vector<std::string> profiles;  // compare takes several, and modes too
  std::vector<std::string> data_modes;
  std::vector<std::string> mount_options;
  std::uint32_t sector_bytes = 512;
  std::uint32_t block_bytes = 4096;
  std::uint32_t depth = 1;
  std::uint64_t max_recoveries = 0;
  double time_s = 0;
  std::uint64_t main_limit_s = recovery::kMainLimit.count();
  std::uint64_t recovery_limit_s = recovery::kRecoveryLimit.count();
  std::uint32_t jobs = 0;  // 0: one a core
  std::uint64_t seed = 0;
  std::string from_directory;
  ReportOptions reports;
};

// Help with a usage line of our own: "Usage: crashcut run [options] prog [args...]".
std::shared_ptr<CLI::Formatter> usage_formatter(const std::string& usage);

// Those that name the model and the starting state.
void add_model_options(CLI::App& command, Options& options);
// Options of `command`, and "prog [args...]" after them: what follows prog is the program's.
void add_options(CLI::App& command, Options& options);
// How long a recovery may take, where it is run in-process; and main(), where that is not scheduled.
void add_recovery_limit(CLI::App& command, Options& options);
void add_main_limit(CLI::App& command, Options& options);
// "--file", "-o": all names of the command's options.
std::vector<std::string> option_names(const CLI::App& command);
// "--" would end the options of crashcut itself, not those of the command: hide it until program_words().
std::vector<std::string> hide_separators(std::vector<std::string> words);
std::vector<std::string> show_separators(std::vector<std::string> words);
// prog, or whatever else comes first, and its arguments; throws CLI::ParseError where there is none.
std::vector<std::string> program_words(const CLI::App& command, std::string_view what = "program");
// The command's options as they were given, but for those that may differ when a search is gone on with; "--"; the
// program's words.
std::vector<std::string> words_of(const CLI::App& command);

// A plan without its program, of one profile and mode; or of those that were named, where each was named once at most.
tl::expected<recovery::Plan, result::Failure> make_plan(const Options& options, std::string_view profile,
                                                        std::string_view data_mode);
tl::expected<recovery::Plan, result::Failure> make_plan(const Options& options);
// The directory of --from, absolute; empty where none is named.
tl::expected<std::string, result::Failure> absolute_directory(const std::string& named);
// For numbers in a range, with a message that says so.
CLI::Validator whole_between(std::uint64_t least, std::uint64_t most);
CLI::Validator real_between(double least, double most);
std::uint32_t count_cores();
// --resume DIR, and what may be given beside it: bounds, where reports go, and `more` of the command's own.
void add_resume_option(CLI::App& command, std::string& directory);
tl::expected<void, result::Failure> check_beside_resume(const CLI::App& command,
                                                        const std::vector<std::string>& more = {});

}  // namespace crashcut::cli
