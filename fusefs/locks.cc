#include "fusefs/locks.h"

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace crashcut::fusefs {

FileLocks::Range FileLocks::to_range(std::uint64_t owner, const struct flock& lock) {
  constexpr std::int64_t kEndOfFile = std::numeric_limits<std::int64_t>::max();
  std::int64_t begin = lock.l_start;
  std::int64_t end = lock.l_len == 0 ? kEndOfFile : lock.l_start + lock.l_len;
  if (lock.l_len < 0) std::swap(begin, end);
  return Range{owner, begin, end, lock.l_type, lock.l_pid};
}

const FileLocks::Range* FileLocks::find_conflict(const Range& wanted) const {
  for (const Range& held : ranges_) {
    const bool overlaps = held.begin < wanted.end && wanted.begin < held.end;
    const bool is_own = held.owner == wanted.owner;
    // F_OFD_GETLK with F_UNLCK asks for one's own.
    const bool conflicts =
        wanted.type == F_UNLCK ? is_own : !is_own && (held.type == F_WRLCK || wanted.type == F_WRLCK);
    if (overlaps && conflicts) return &held;
  }
  return nullptr;
}

Errno FileLocks::set(std::uint64_t owner, const struct flock& lock) {
  const Range wanted = to_range(owner, lock);
  if (wanted.type != F_UNLCK && find_conflict(wanted)) return -EAGAIN;
  // As posix_lock_inode() keeps them, since F_GETLK shows it: an owner's ranges together and ascending, what touches
  // and is of one type made one.
  const auto is_mine = [&](const Range& held) { return held.owner == owner; };
  const auto place = std::find_if(ranges_.begin(), ranges_.end(), is_mine) - ranges_.begin();
  Range merged = wanted;
  std::vector<Range> mine;
  const auto keep = [&](Range part) {
    const bool touches = part.end == wanted.begin || part.begin == wanted.end;
    if (part.begin >= part.end) return;
    if (touches && part.type == wanted.type) {
      merged.begin = std::min(merged.begin, part.begin);
      merged.end = std::max(merged.end, part.end);
    } else {
      mine.push_back(part);
    }
  };
  for (const Range& held : ranges_) {
    if (!is_mine(held)) continue;
    keep(Range{owner, held.begin, std::min(held.end, wanted.begin), held.type, held.pid});
    keep(Range{owner, std::max(held.begin, wanted.end), held.end, held.type, held.pid});
  }
  if (wanted.type != F_UNLCK) mine.push_back(merged);
  std::sort(mine.begin(), mine.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::erase_if(ranges_, is_mine);
  ranges_.insert(ranges_.begin() + place, mine.begin(), mine.end());
  return 0;
}

void FileLocks::test(std::uint64_t owner, struct flock& lock) const {
  const Range* found = find_conflict(to_range(owner, lock));
  if (!found) {
    lock.l_type = F_UNLCK;
    return;
  }
  lock.l_type = found->type;
  lock.l_whence = SEEK_SET;
  lock.l_start = found->begin;
  lock.l_len = found->end == std::numeric_limits<std::int64_t>::max() ? 0 : found->end - found->begin;
  lock.l_pid = found->pid;
}

Errno FileLocks::flock(std::uint64_t owner, int operation) {
  std::erase_if(whole_, [&](const Whole& held) { return held.owner == owner; });
  const int kind = operation & ~LOCK_NB;
  if (kind == LOCK_UN) return 0;
  const bool exclusive = kind == LOCK_EX;
  const bool conflict =
      std::any_of(whole_.begin(), whole_.end(), [&](const Whole& held) { return exclusive || held.exclusive; });
  if (conflict) return -EAGAIN;
  whole_.push_back(Whole{owner, exclusive});
  return 0;
}

void FileLocks::drop(std::uint64_t owner) {
  std::erase_if(ranges_, [&](const Range& held) { return held.owner == owner; });
  std::erase_if(whole_, [&](const Whole& held) { return held.owner == owner; });
}

}  // namespace crashcut::fusefs
