// The user's checker on a mounted crash state: CommandRunner in a sandbox.
#pragma once

#include <atomic>
#include <memory>

#include "recovery/mounted/explorer.h"
#include "recovery/mounted/plan.h"
#include "recovery/sandbox/command.h"
#include "recovery/sandbox/syscall_watch.h"

namespace crashcut::mounted {

// argv that runs the line: the shell, unless it is plain words and the name of a program.
std::vector<std::string> argv_of(const CommandLine& line);

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
