// The user's checker on a disk that the kernel mounted, in a sandbox.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recovery/mounted/command_runner.h"

namespace crashcut::kernel {

class KernelRunner {
 public:
  struct Setup {
    const sandbox::Inside& inside;
    std::string results;  // the directory of the results: the disk is mounted at its disk/
    mounted::CommandLine command;
    std::chrono::nanoseconds limit;
    std::optional<int> core;
    const std::atomic<bool>* stop = nullptr;  // kills the command
    bool with_terminal = false;               // a person's
  };
  // The error is a sentence. Must be made by the thread that calls run().
  static tl::expected<std::unique_ptr<KernelRunner>, std::string> start(const Setup& setup);

  // `marks` are those that the program had made.
  mounted::CommandResult run(const std::vector<std::string>& marks);

 private:
  explicit KernelRunner(const Setup& setup);
  sandbox::SyscallHandlers handlers();

  Setup setup_;
  std::unique_ptr<sandbox::SyscallWatch> watch_;
  std::vector<std::string> environment_;
  std::vector<std::string> marks_;  // while the command runs
  std::atomic<bool> assumed_away_ = false;
};

}  // namespace crashcut::kernel
