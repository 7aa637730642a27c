// What a check of an unmodified program is to do.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fusefs/profile.h"
#include "recovery/mounted/expectations.h"
#include "recovery/result/failure.h"
#include "recovery/search/plan.h"

namespace crashcut::mounted {

// A command line: words, or one string for the shell.
struct CommandLine {
  std::vector<std::string> words;
  bool empty() const { return words.empty(); }
};

// How the program is run and recorded.
struct RecordPlan {
  std::string directory;  // of the results, absolute: the disk is mounted at disk/, the trace is written to trace
  CommandLine program;
  std::string from_directory;           // absolute; empty: none
  std::vector<std::string> left_out;    // of from_directory, absolute paths: the results themselves
  CommandLine setup;                    // run before it; what it leaves is durable
  std::vector<std::string> named_here;  // arguments of the program that name files where crashcut was called
  bool is_stdout_taken = false;         // by a report: what the program prints goes to stderr
  bool lines_are_marks = false;
  std::chrono::nanoseconds limit{std::chrono::seconds(600)};   // of the program and of the set-up; 0: none
  std::optional<std::chrono::steady_clock::time_point> end{};  // the program is stopped then, too
  std::uint64_t memory_limit = 0;         // a recording that would take too much of it is stopped; 0: none
  std::function<bool()> is_memory_hit{};  // asked in the sandbox; none: never
};

// What is asked of the crash states, and how far to go.
struct CheckPlan {
  std::string directory;             // as above
  std::vector<std::string> files;    // --file
  std::vector<std::string> backups;  // --backup
  bool tree = false;                 // --tree
  bool durable = true;               // less --no-durable
  std::set<Expect> expects;
  CommandLine checker;
  std::chrono::seconds check_limit{30};
  fusefs::ModelOptions model;
  search::Plan search;
  bool remount = false;
  std::string image_directory;     // --image: explored states as plain trees; empty: none
  std::uint64_t memory_limit = 0;  // --memory-limit, in bytes; 0: none. A recording that takes too much of it is cut.
};

// Where the program's files must come from.
inline constexpr std::string_view kHowFilesCome =
    "The program starts on a disk that is empty but for --from and --setup: --from DIR copies a directory onto it "
    "(--from . the one "
    "that crashcut is called in), and --setup CMD is run there first.";

std::string disk_of(const std::string& directory);
std::string trace_of(const std::string& directory);

using result::Failure;

}  // namespace crashcut::mounted
