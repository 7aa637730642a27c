// OwnCalls: the system calls that a mount's server makes on its own mount.
//
// They wait for an answer of this very process. If it is killed meanwhile, the thread that waits cannot die before
//   the mount's channel is closed, and the channel stays open for as long as a thread has it: an unkillable process.
//   So these calls are made by one thread whose table of descriptors does not have the channel.
// Threads: any, but not the one that serves the mount.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace crashcut::fusefs {

// Of the attributes that it asks for, which no disk has.
inline constexpr std::string_view kOwnPrefix = "user.crashcut.";

class OwnCalls {
 public:
  // `stays_open`: the root is kept open, which is faster, and keeps others from unmounting it.
  OwnCalls(std::string directory, bool stays_open);
  ~OwnCalls();

  // The root's device. 0 and errno where the mount does not answer.
  dev_t find_device();
  // Dirty pages go to the server, and were handled there when it returns.
  void sync();
  // Asks for an extended attribute of the root, which is a request that the kernel has no answer to.
  void ask_for(const char* attribute);

 private:
  void serve();
  void call(const std::function<void()>& action);
  // In the thread itself: `action` on the root, where it can be opened.
  void with_root(const std::function<void(int root)>& action);

  std::string directory_;
  bool stays_open_;
  int root_ = -1;
  std::mutex callers_;  // one call at a time
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* action_ = nullptr;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace crashcut::fusefs
