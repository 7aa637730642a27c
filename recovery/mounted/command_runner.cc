#include "recovery/mounted/command_runner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "recovery/mounted/sync_handlers.h"

namespace crashcut::mounted {

using fusefs::Mount;
using sandbox::Outcome;

struct MountedRunner::Idle {
  fusefs::TraceClock clock;
  fusefs::Filesystem filesystem{fusefs::Filesystem::Setup{.noatime = true, .clock = clock.reader()}};
  fusefs::Traced changes{filesystem, clock, nullptr};
  fusefs::Volume volume{filesystem, changes, {}};
};

namespace {

// What a shell does itself, or differently from the program of that name.
constexpr std::string_view kShellWords[] = {
    ".",      ":",    "alias", "bg",       "break",  "case",    "cd",    "command", "continue", "do",
    "done",   "echo", "elif",  "else",     "esac",   "eval",    "exec",  "exit",    "export",   "fc",
    "fg",     "fi",   "for",   "getopts",  "hash",   "if",      "in",    "jobs",    "kill",     "local",
    "printf", "pwd",  "read",  "readonly", "return", "set",     "shift", "test",    "then",     "time",
    "times",  "trap", "type",  "ulimit",   "umask",  "unalias", "unset", "until",   "wait",     "while"};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ' ');) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

}  // namespace

bool needs_shell(const std::string& text) {
  if (text.find_first_of("\t\n|&;<>()$`\\\"'*?[]#~=%{}!") != std::string::npos) return true;
  const std::vector<std::string> words = words_of(text);
  return words.empty() || std::find(std::begin(kShellWords), std::end(kShellWords), words[0]) != std::end(kShellWords);
}

std::vector<std::string> argv_of(const CommandLine& line) {
  if (line.words.size() != 1) return line.words;
  const std::string& text = line.words[0];
  // The shell would do no more than run the program, and is a program itself: half of the time of a small checker.
  return needs_shell(text) ? std::vector<std::string>{"/bin/sh", "-c", text} : words_of(text);
}

sandbox::Command command_on_disk(const RecordPlan& plan, std::vector<std::string> argv) {
  sandbox::Command command;
  command.argv = std::move(argv);
  command.directory = disk_of(plan.directory);
  command.environment = sandbox::environment_without({"PWD="});
  command.environment.push_back("PWD=" + command.directory);
  if (plan.limit.count() > 0) command.limit = plan.limit;
  return command;
}

void limit_program(sandbox::Command& command, const RecordPlan& plan, bool with_terminal) {
  using std::chrono::nanoseconds;
  if (with_terminal) command.limit.reset();
  if (!plan.end) return;
  const nanoseconds left = std::max<nanoseconds>(*plan.end - std::chrono::steady_clock::now(), nanoseconds(1));
  command.limit = std::min(command.limit.value_or(left), left);
}

std::string why_failed(const sandbox::Outcome& outcome, std::chrono::nanoseconds limit) {
  using End = sandbox::Outcome::End;
  const std::size_t last = outcome.err.find_last_not_of(" \n");
  const std::string said = last == std::string::npos ? "" : " It said: " + outcome.err.substr(0, last + 1);
  switch (outcome.end) {
    case End::kNotStarted:
      return outcome.why;
    case End::kTimedOut:
      return fmt::format("it did not end within {:g} seconds.", std::chrono::duration<double>(limit).count());
    case End::kSignalled:
      return fmt::format("killed by signal {}.{}", outcome.signal, said);
    case End::kStopped:
      return "it was stopped.";
    case End::kExited:
      break;
  }
  return outcome.code == 0 ? "" : fmt::format("it ended with status {}.{}", outcome.code, said);
}

std::vector<std::string> checker_environment(const std::string& disk, const std::string& files) {
  auto environment = sandbox::environment_without(
      {"CRASHCUT_MARKS=", "CRASHCUT_STDOUT=", "CRASHCUT_CERTAIN=", "CRASHCUT_DEVICE=", "PWD="});
  environment.push_back("PWD=" + disk);
  environment.push_back("CRASHCUT_MARKS=" + files + "/marks");
  environment.push_back("CRASHCUT_STDOUT=" + files + "/stdout");
  return environment;
}

MountedRunner::MountedRunner(const Setup& setup) : setup_(setup), idle_(std::make_unique<Idle>()) {
  environment_ = checker_environment(setup_.directory, setup_.directory + "/.crashcut");
}

MountedRunner::~MountedRunner() = default;

tl::expected<void, std::string> MountedRunner::mount(fusefs::Volume& volume) {
  mount_.reset();
  auto mount = Mount::start(
      {.directory = setup_.directory, .caching = Mount::Caching::kNothing, .allow_others = geteuid() == 0}, volume);
  if (!mount) return tl::unexpected(mount.error());
  mount_ = std::move(*mount);
  return {};
}

tl::expected<std::unique_ptr<MountedRunner>, std::string> MountedRunner::start(const Setup& setup) {
  std::unique_ptr<MountedRunner> runner(new MountedRunner(setup));
  if (auto mounted = runner->mount(runner->idle_->volume); !mounted) return tl::unexpected(mounted.error());
  auto watch = sandbox::SyscallWatch::start(runner->handlers());
  if (!watch) return tl::unexpected(watch.error());
  runner->watch_ = std::move(*watch);
  return runner;
}

sandbox::SyscallHandlers MountedRunner::handlers() {
  sandbox::SyscallHandlers handlers;
  if (setup_.records_writes) handlers = sync_handlers(mount_);
  handlers.on_reached = [this](const sandbox::Caller&, std::string_view text) {
    const auto* reached = reached_.load();
    bool answer = false;
    if (reached) mount_->while_quiet([&](fusefs::Volume&) { answer = (*reached)(std::string(text)); });
    return sandbox::Answer::with(answer ? 1 : 0);
  };
  handlers.on_assume = [this](const sandbox::Caller&) {
    assumed_away_ = true;
    return sandbox::Answer::with(0);
  };
  return handlers;
}

MountedRunner& MountedRunner::open_to(const CommandLine& command) {
  setup_.command = command;
  setup_.limit = {};
  setup_.with_terminal = true;
  return *this;
}

CommandResult result_of(const Outcome& outcome, std::string_view who) {
  CommandResult result;
  result.output = outcome.out;
  result.errors = outcome.err;
  result.output_cut = outcome.is_out_cut;
  result.errors_cut = outcome.is_err_cut;
  result.code = outcome.code;
  result.signal = outcome.signal;
  switch (outcome.end) {
    case Outcome::End::kNotStarted:
      result.failure = fmt::format("{} could not be run: {}", who, outcome.why);
      result.is_users_fault = true;
      break;
    case Outcome::End::kExited:
      result.finding = outcome.code == 0 ? Finding::kFine : Finding::kCheckFailed;
      break;
    case Outcome::End::kSignalled:
      result.finding = Finding::kCheckFailed;
      break;
    case Outcome::End::kStopped:
      result.was_stopped = true;
      break;
    case Outcome::End::kTimedOut:
      result.finding = Finding::kCheckHung;
      break;
  }
  if (outcome.is_stuck) result.failure = "A process that the checker left cannot be killed.";
  return result;
}

CommandResult MountedRunner::run(fusefs::Volume& volume, const std::vector<std::string>& certain,
                                 const std::function<bool(const std::string&)>& reached) {
  CommandResult result;
  if (setup_.remount) {
    if (auto mounted = mount(volume); !mounted) {
      result.failure = mounted.error();
      return result;
    }
  } else {
    mount_->show(volume);
  }
  reached_ = &reached;
  assumed_away_ = false;
  sandbox::Command command;
  command.argv = argv_of(setup_.command);
  command.environment = environment_;
  std::string marks;
  for (const std::string& mark : certain) marks += (marks.empty() ? "" : "\n") + mark;
  command.environment.push_back("CRASHCUT_CERTAIN=" + marks);
  command.directory = setup_.directory;
  if (setup_.limit.count() > 0) command.limit = setup_.limit;
  command.stop = setup_.stop;
  command.core = setup_.core;
  if (setup_.with_terminal) {
    command.with_terminal = true;
    command.stdin_fd = STDIN_FILENO;
    command.stdout_fd = STDOUT_FILENO;
    command.stderr_fd = STDERR_FILENO;
  }
  const Outcome outcome = sandbox::run(setup_.inside, command);
  mount_->fetch_mapped_stores();
  reached_ = nullptr;
  // The next state begins: requests that the kernel still sends for this one belong to an old generation, and fail.
  mount_->show(idle_->volume);
  result = result_of(outcome, setup_.with_terminal ? "The shell" : "The checker");
  result.read_by_pages = mount_->was_read_by_pages();
  if (assumed_away_) result.finding = Finding::kAssumedAway;
  return result;
}

}  // namespace crashcut::mounted
