#include "cli/mounted_options.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <cerrno>
#include <cstring>

#include "cli/bounds.h"
#include "cli/interrupts.h"
#include "cli/program.h"
#include "recovery/mounted/command_runner.h"
#include "recovery/result/words.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using mounted::CommandLine;
using result::Failure;

// The program runs in another directory: a relative path is made absolute, where there is such a file here.
std::string make_absolute(const std::string& word) {
  boost::system::error_code error;
  const bool is_relative_path = word.find('/') != std::string::npos && word[0] != '/';
  if (!is_relative_path || !fs::exists(word, error)) return word;
  // Links stay as they are: a program may look at its own name.
  return fs::absolute(word.starts_with("./") ? word.substr(2) : word).string();
}

// The directory that a path was made absolute with may have characters that are the shell's.
std::string in_quotes(const std::string& path) {
  std::string text = "'";
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

CommandLine command_line(const std::string& text) {
  if (text.empty()) return {};
  const std::string first = text.substr(0, text.find(' ')), absolute = make_absolute(first);
  const bool is_plain =
      absolute == first || (!mounted::needs_shell(absolute) && absolute.find(' ') == std::string::npos);
  return {{(is_plain ? absolute : in_quotes(absolute)) + text.substr(first.size())}};
}

// A path on the modelled disk, as --file takes it.
tl::expected<std::string, Failure> disk_path(const std::string& given) {
  if (given.empty() || given[0] == '/') {
    return tl::unexpected(result::users_failure(
        fmt::format("--file {}: it is outside the modelled disk. Name the file relative to the directory in "
                    "which the program starts.",
                    given)));
  }
  fs::path path = fs::path(given).lexically_normal();
  if (*path.begin() == ".") path = path.lexically_relative(".");
  if (*path.begin() == "..")
    return tl::unexpected(result::users_failure(fmt::format("--file {}: it is outside the modelled disk.", given)));
  return path.string();
}

tl::expected<void, Failure> check_program(const std::string& word) {
  if (word.find('/') == std::string::npos) {
    if (!find_in_path(word).empty()) return {};
    return result::wrong_use(fmt::format("There is no program {} in PATH.", word));
  }
  if (access(word.c_str(), F_OK) != 0) return {};  // it may be on the disk, where the set-up puts it
  if (access(word.c_str(), X_OK) != 0)
    return tl::unexpected(result::users_failure(
        fmt::format("{} cannot be executed: {}. If it is a program, chmod +x {} makes it one that can.", word,
                    std::strerror(errno), word)));
  return {};
}

}  // namespace

bool asks_for_mount(const MountedOptions& options, const std::vector<std::string>& words) {
  const bool is_asked = !options.files.empty() || options.tree || !options.expects.empty() ||
                        !options.checker.empty() || !options.setup.empty() || options.not_durable ||
                        options.lines_are_marks || options.remount || !options.image_directory.empty();
  boost::system::error_code error;
  return is_asked ||
         (words[0].find('/') == std::string::npos && !fs::exists(words[0], error) && check_program(words[0]));
}

void add_mounted_options(CLI::App& command, MountedOptions& options) {
  add_options(command, options.common);
  command.add_option("--file", options.files, "this file must be found old or new, whole")
      ->type_name("F")
      ->allow_extra_args(false);
  command.add_option("--backup", options.backups, "a name under which --file may be found too")
      ->type_name("F")
      ->allow_extra_args(false);
  command.add_flag("--tree", options.tree, "every file must be (the default when nothing else is asked)");
  command
      .add_option("--expect", options.expects,
                  "no-empty, no-missing, no-garbage or prefix: for --file, or for every file")
      ->type_name("WHAT")
      ->allow_extra_args(false);
  command.add_flag("--no-durable", options.not_durable, "the old version may be back after the program has exited");
  command.add_option("--check", options.checker, "a command that looks at a crashed disk: status 0 is fine")
      ->type_name("CMD");
  command.add_option("--check-limit", options.check_limit_s, "how long one run of it may take (default: 30)")
      ->type_name("SECONDS");
  command.add_option("--setup", options.setup, "run this first; what it leaves is durable")->type_name("CMD");
  command
      .add_option("--program-limit", options.program_limit_s,
                  "how long the program may take; 0: no limit (default: 600; none at a terminal)")
      ->type_name("SECONDS");
  command.add_flag("--stdout-marks", options.lines_are_marks, "each line that the program prints is a mark");
  command.add_flag("--remount", options.remount, "unmount and mount for every state, instead of switching");
  command
      .add_option("--image", options.image_directory,
                  "write the explored states to DIR as plain trees: 000001, and with --depth 2 000001.0001 for what a "
                  "crash of the checker there leaves")
      ->type_name("DIR");
  add_out_option(command, options.common.reports, "keep trace and results there (default: crashcut.out/N)");
}

tl::expected<MountedPlans, Failure> make_mounted_plans(const MountedOptions& options,
                                                       const std::vector<std::string>& words,
                                                       const std::string& results) {
  auto common = make_plan(options.common);
  if (!common) return tl::unexpected(common.error());
  MountedPlans plans;
  mounted::CheckPlan& check = plans.check;
  for (const std::string& file : options.files) {
    auto path = disk_path(file);
    if (!path) return tl::unexpected(path.error());
    check.files.push_back(*path);
  }
  if (!options.backups.empty() && options.files.empty())
    return tl::unexpected(result::users_failure("--backup needs a --file that it is a backup of."));
  for (const std::string& file : options.backups) {
    auto path = disk_path(file);
    if (!path) return tl::unexpected(path.error());
    check.backups.push_back(*path);
  }
  for (const std::string& text : options.expects) {
    const auto expect = mounted::parse_expect(text);
    if (!expect) return tl::unexpected(result::users_failure(expect.error()));
    check.expects.insert(*expect);
  }
  std::vector<std::string> program = words;
  program[0] = make_absolute(program[0]);
  if (auto ok = check_program(program[0]); !ok) return tl::unexpected(ok.error());
  check.tree = options.tree;
  check.durable = !options.not_durable;
  check.checker = command_line(options.checker);
  check.check_limit = std::chrono::seconds(options.check_limit_s);
  check.model = common->model;
  check.search.depth = common->depth;
  check.search.jobs = common->jobs;
  check.search.max_recoveries = common->max_recoveries;
  check.search.time_limit = common->time_limit;
  check.search.seed = common->seed;
  check.search.wants_all = options.common.reports.outcomes;
  check.search.wants_states = true;  // there is always a directory of results
  check.search.wants_all_states = !options.common.reports.html_file.empty();
  check.remount = options.remount;
  check.memory_limit = memory_limit();
  tl::expected<std::string, Failure> directory = results;
  if (results.empty()) directory = make_results_directory(options.common.reports.out_directory);
  if (!directory) return tl::unexpected(directory.error());
  if (!options.image_directory.empty()) {
    if (mkdir(options.image_directory.c_str(), 0755) != 0) {
      return tl::unexpected(result::users_failure(fmt::format("Cannot make {}: {}. --image wants a new directory.",
                                                              options.image_directory, std::strerror(errno))));
    }
    check.image_directory = fs::canonical(options.image_directory).string();
  }
  check.directory = plans.record.directory = *directory;
  plans.record.program.words = program;
  plans.record.from_directory = common->from_directory;
  plans.record.left_out = {*directory, check.image_directory, common->from_directory + "/" + kResults};
  plans.record.named_here = named_here(words);
  plans.record.setup = command_line(options.setup);
  plans.record.lines_are_marks = options.lines_are_marks;
  plans.record.limit = std::chrono::seconds(options.program_limit_s);
  plans.record.memory_limit = memory_limit();
  plans.record.is_memory_hit = is_memory_hit;
  if (check.search.time_limit.count() > 0)
    plans.record.end = std::chrono::steady_clock::now() +
                       std::chrono::duration_cast<std::chrono::nanoseconds>(check.search.time_limit);
  return plans;
}

tl::expected<mounted::Recorded, Failure> record_program(const MountedPlans& plans) {
  const bool with_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !plans.record.lines_are_marks;
  const MemoryPolled polled;
  const EndsInTime ends(plans.record.end);
  auto recorded = mounted::record(plans.record, with_terminal);
  forget_memory_hit();  // what took it is gone
  // A program that a limit stopped is no failure: what it did until then is explored.
  if (!recorded || recorded->timed_out || recorded->out_of_memory || (recorded->exited && recorded->code == 0))
    return recorded;
  // Crashing a program that fails by itself would explain nothing.
  const std::string how = recorded->exited ? fmt::format("ended with status {}", recorded->code)
                                           : fmt::format("was killed by {}", result::signal_text(recorded->signal));
  std::string hint;
  if (!recorded->not_on_disk.empty()) {
    hint = " " + mounted::not_on_disk_text(recorded->not_on_disk);
  } else if (!mounted::has_changed_something(plans.record.directory)) {
    hint = fmt::format(" It changed nothing. {}", mounted::kHowFilesCome);
  }
  return tl::unexpected(result::users_failure(
      fmt::format("The program itself failed, before any crash was tried: it {}. What it did is in {}.{}", how,
                  mounted::trace_of(plans.record.directory), hint)));
}

}  // namespace crashcut::cli
