// WatchedCommand: a person's own command on a mount that everybody sees, for the sake of its sync calls.
//
// It is no sandbox: the command has the terminal, the user's rights (but for set-user-id programs, where the user is
//   not root) and its own processes. When it is hung up, processes that it left get ENOSYS from sync.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/sandbox/syscall_watch.h"

namespace crashcut::mounted {

class WatchedCommand {
 public:
  // Starts it in `directory`. The error is a sentence.
  static tl::expected<std::unique_ptr<WatchedCommand>, std::string> start(const std::vector<std::string>& argv,
                                                                          const std::string& directory,
                                                                          sandbox::SyscallHandlers handlers);
  // Hangs up, and kills it where that does not help.
  ~WatchedCommand();

  bool has_ended() const { return has_ended_; }
  // Once it has ended: as a shell gives it, 128 and more for a signal.
  int exit_code() const { return exit_code_; }

 private:
  WatchedCommand() = default;
  std::string start_and_watch(const std::vector<std::string>& argv, const std::string& directory,
                              sandbox::SyscallHandlers handlers);
  void await();

  std::unique_ptr<sandbox::SyscallWatch> watch_;
  std::thread thread_;
  pid_t pid_ = -1;
  std::atomic<bool> has_ended_ = false;
  int exit_code_ = 0;
};

}  // namespace crashcut::mounted
