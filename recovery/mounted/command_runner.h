// The user's checker on a mounted crash state, in a sandbox.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "fusefs/mount/mount.h"
#include "recovery/mounted/expectations.h"
#include "recovery/mounted/plan.h"
#include "recovery/sandbox/command.h"
#include "recovery/sandbox/syscall_watch.h"

namespace crashcut::mounted {

// Whether it takes a shell to run the text: it is more than plain words, or its first word is the shell's.
bool needs_shell(const std::string& text);

// argv that runs the line: its words; a line of one word is a text, which the shell runs where it takes one.
std::vector<std::string> argv_of(const CommandLine& line);

// What the checker did.
struct CommandResult {
  Finding finding = Finding::kFine;
  int code = 0;
  int signal = 0;
  std::string output, errors;
  bool output_cut = false, errors_cut = false;
  bool read_by_pages = false;
  bool was_stopped = false;  // before it was done: there is no answer
  std::string failure;       // of crashcut: the command could not be run at all
  bool is_users_fault = false;
};

// A command of the user's on the disk, with the limit of the plan.
sandbox::Command command_on_disk(const RecordPlan& plan, std::vector<std::string> argv);
// The command is the program itself: it also ends when the plan does, and at a terminal by no other limit.
void limit_program(sandbox::Command& command, const RecordPlan& plan, bool with_terminal);
// Why a command that had to go well did not, a clause; empty: it did.
std::string why_failed(const sandbox::Outcome& outcome, std::chrono::nanoseconds limit);
// The environment of a checker on a disk. `files` is the directory of the files that tell it what was promised.
std::vector<std::string> checker_environment(const std::string& disk, const std::string& files);

// What a command that ran in a sandbox did. `who` is its name in sentences: "The checker".
CommandResult result_of(const sandbox::Outcome& outcome, std::string_view who);

// Runs the user's command on a volume.
class CommandRunner {
 public:
  virtual ~CommandRunner() = default;
  // `certain` are the marks that were reached whatever the command reads. `reached` asks about another one.
  virtual CommandResult run(fusefs::Volume& volume, const std::vector<std::string>& certain,
                            const std::function<bool(const std::string&)>& reached) = 0;
};

class MountedRunner final : public CommandRunner {
 public:
  struct Setup {
    const sandbox::Inside& inside;
    std::string directory;  // where it is mounted
    CommandLine command;
    std::chrono::nanoseconds limit;
    std::optional<int> core;
    bool remount = false;
    bool records_writes = false;              // depth 2
    const std::atomic<bool>* stop = nullptr;  // kills the command
    bool with_terminal = false;               // a person's
  };
  // The error is a sentence. Must be made by the thread that calls run().
  static tl::expected<std::unique_ptr<MountedRunner>, std::string> start(const Setup& setup);
  ~MountedRunner() override;

  // From now on it runs this one, for a person at the terminal and without a limit.
  MountedRunner& open_to(const CommandLine& command);
  CommandResult run(fusefs::Volume& volume, const std::vector<std::string>& certain,
                    const std::function<bool(const std::string&)>& reached) override;

 private:
  explicit MountedRunner(const Setup& setup);
  tl::expected<void, std::string> mount(fusefs::Volume& volume);
  sandbox::SyscallHandlers handlers();

  Setup setup_;
  struct Idle;  // an empty disk, shown between two states
  std::unique_ptr<Idle> idle_;
  std::unique_ptr<fusefs::Mount> mount_;
  std::unique_ptr<sandbox::SyscallWatch> watch_;
  std::vector<std::string> environment_;
  std::atomic<const std::function<bool(const std::string&)>*> reached_ = nullptr;
  std::atomic<bool> assumed_away_ = false;
};

}  // namespace crashcut::mounted
