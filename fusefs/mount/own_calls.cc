#include "fusefs/mount/own_calls.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

namespace crashcut::fusefs {

OwnCalls::OwnCalls(std::string directory) : directory_(std::move(directory)), thread_([this] { serve(); }) {}

OwnCalls::~OwnCalls() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void OwnCalls::serve() {
  close_range(0, ~0U, CLOSE_RANGE_UNSHARE);  // a table of its own, empty
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_over_ || action_ != nullptr; });
    if (is_over_) break;
    const std::function<void()>& action = *action_;
    lock.unlock();
    action();
    lock.lock();
    action_ = nullptr;
    changed_.notify_all();
  }
  if (root_ >= 0) close(root_);
}

void OwnCalls::call(const std::function<void()>& action) {
  const std::lock_guard turn(callers_);
  std::unique_lock lock(mutex_);
  action_ = &action;
  changed_.notify_all();
  changed_.wait(lock, [&] { return action_ == nullptr; });
}

dev_t OwnCalls::open_root() {
  struct statx root {};
  int error = 0;
  call([&] {
    root_ = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // What the kernel knows by itself: on a crashed disk, asking for attributes would decide them.
    if (root_ < 0 || statx(root_, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &root) != 0) error = errno;
  });
  errno = error;
  return makedev(root.stx_dev_major, root.stx_dev_minor);
}

void OwnCalls::sync() {
  call([&] {
    // Since Linux 6.18 this starts the writing and does not wait for it. Requests are handled in the order in which
    // they were sent: once this one is answered, those before it were.
    syncfs(root_);
    fgetxattr(root_, "user.crashcut.fetched", nullptr, 0);
  });
}

void OwnCalls::ask_for(const char* attribute) {
  call([&] { fgetxattr(root_, attribute, nullptr, 0); });
}

}  // namespace crashcut::fusefs
