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

OwnCalls::OwnCalls(std::string directory, bool stays_open)
    : directory_(std::move(directory)), stays_open_(stays_open), thread_([this] { serve(); }) {}

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

void OwnCalls::with_root(const std::function<void(int)>& action) {
  if (root_ < 0) root_ = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root_ < 0) return;
  action(root_);
  if (stays_open_) return;
  close(root_);
  root_ = -1;
}

dev_t OwnCalls::find_device() {
  struct statx found {};
  int error = 0;
  call([&] {
    errno = 0;
    // What the kernel knows by itself: on a crashed disk, asking for attributes would decide them.
    with_root([&](int root) { statx(root, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &found); });
    error = errno;
  });
  errno = error;
  return makedev(found.stx_dev_major, found.stx_dev_minor);
}

void OwnCalls::sync() {
  call([&] {
    with_root([](int root) {
      // Since Linux 6.18 this starts the writing and does not wait for it. Requests are handled in the order in which
      // they were sent: once this one is answered, those before it were.
      syncfs(root);
      fgetxattr(root, "user.crashcut.fetched", nullptr, 0);
    });
  });
}

void OwnCalls::ask_for(const char* attribute) {
  call([&] { with_root([&](int root) { fgetxattr(root, attribute, nullptr, 0); }); });
}

}  // namespace crashcut::fusefs
