// FileLocks: the advisory locks of one inode. POSIX record locks by owner and range, flock locks by description.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <vector>

#include "fusefs/types.h"

namespace crashcut::fusefs {

class FileLocks {
 public:
  // F_SETLK; -EAGAIN if another owner is in the way.
  Errno set(std::uint64_t owner, const struct flock& lock);
  // F_GETLK: `lock` becomes the first lock in the way. If there is none, its type becomes F_UNLCK.
  void test(std::uint64_t owner, struct flock& lock) const;
  Errno flock(std::uint64_t owner, int operation);
  void drop(std::uint64_t owner);
  bool empty() const { return ranges_.empty() && whole_.empty(); }

 private:
  struct Range {
    std::uint64_t owner;
    std::int64_t begin;
    std::int64_t end;  // one past the last byte
    short type;
    pid_t pid;
  };
  struct Whole {
    std::uint64_t owner;
    bool exclusive;
  };
  static Range to_range(std::uint64_t owner, const struct flock& lock);
  const Range* find_conflict(const Range& wanted) const;

  std::vector<Range> ranges_;
  std::vector<Whole> whole_;
};

}  // namespace crashcut::fusefs
