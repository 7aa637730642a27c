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
    if (overlaps && held.owner != wanted.owner && (held.type == F_WRLCK || wanted.type == F_WRLCK)) return &held;
  }
  return nullptr;
}

Errno FileLocks::set(std::uint64_t owner, const struct flock& lock) {
  const Range wanted = to_range(owner, lock);
  if (wanted.type != F_UNLCK && find_conflict(wanted)) return -EAGAIN;
  std::vector<Range> kept;
  for (const Range& held : ranges_) {
    if (held.owner != owner || held.end <= wanted.begin || wanted.end <= held.begin) {
      kept.push_back(held);
      continue;
    }
    if (held.begin < wanted.begin) kept.push_back(Range{owner, held.begin, wanted.begin, held.type, held.pid});
    if (wanted.end < held.end) kept.push_back(Range{owner, wanted.end, held.end, held.type, held.pid});
  }
  if (wanted.type != F_UNLCK) kept.push_back(wanted);
  ranges_ = std::move(kept);
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
