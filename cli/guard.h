// Guard: a process that removes a directory when crashcut is gone, however it went.
//
// SIGKILL runs no handler and no destructor. So crashcut forks the guard before it makes the directory. The guard
//   waits on a pipe whose other end only crashcut holds: when that closes, it ends what runs in its process group
//   (the compiler) and removes the directory until nothing of it is left.
// Threads: one, except finish(), which is also safe in a signal handler.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>

namespace crashcut::cli {

class Guard {
 public:
  // `directory` is an absolute path; it need not exist yet. Throws std::system_error.
  explicit Guard(const std::string& directory);
  Guard(const Guard&) = delete;
  // Removes the directory itself where the guard was killed.
  ~Guard();

  // What is started in this group ends with crashcut.
  pid_t group() const { return process_; }
  // Returns when the directory is removed.
  void finish();

 private:
  std::atomic<int> pipe_{-1};
  pid_t process_ = -1;
  std::string directory_;
};

}  // namespace crashcut::cli
