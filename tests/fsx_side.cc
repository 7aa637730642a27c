#include "tests/fsx_side.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <random>

namespace crashcut::tests::fsx {

long Side::open_slot(const Op& op) {
  if (fds_[op.slot] >= 0) close(fds_[op.slot]);
  fds_[op.slot] = openat(root_, op.path.c_str(), op.flags | O_CLOEXEC | O_NONBLOCK, op.mode);
  return fds_[op.slot] < 0 ? -1 : 0;
}

long Side::map(const Op& op, std::string& data, bool writes) {
  const int fd = fds_[op.slot];
  struct stat now {};
  if (fstat(fd, &now) != 0 || !S_ISREG(now.st_mode)) return -2;
  const off_t begin = op.offset < 0 ? 0 : op.offset / 4096 * 4096;
  if (begin >= now.st_size) return -3;
  const auto length = static_cast<std::size_t>(std::min<off_t>(now.st_size - begin, static_cast<off_t>(op.length) + 1));
  void* const where = mmap(nullptr, length, writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, begin);
  if (where == MAP_FAILED) return -1;
  auto* const bytes = static_cast<char*>(where);
  if (writes) {
    const std::size_t first = static_cast<std::size_t>(op.other_offset < 0 ? 0 : op.other_offset) % length;
    std::memset(bytes + first, op.fill, length - first);
    if (op.flags != 0) msync(where, length, op.flags == 1 ? MS_SYNC : MS_ASYNC);
  } else {
    data.assign(bytes, length);
  }
  munmap(where, length);
  return static_cast<long>(length);
}

long Side::list(const Op& op, std::string& data) {
  const int dir = openat(root_, op.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return -1;
  for (const auto& [name, type] : names_in(dir)) data += fmt::format("{} {} ", name, type);
  close(dir);
  return 0;
}

long Side::call_xattr(const Op& op, std::string& data) {
  static constexpr const char* kNames[] = {"user.one",    "user.two", "trusted.one", "user.",
                                           "system.none", "none",     "security.x",  "user.three"};
  const std::string path = root_path_ + "/" + op.path;
  const char* name = kNames[op.mode % std::size(kNames)];
  std::array<char, 4096> value;
  value.fill(op.fill);
  ssize_t result = 0;
  switch (op.call) {
    case Call::kSetXattr:
      return lsetxattr(path.c_str(), name, value.data(), op.length % 800, op.flags);
    case Call::kGetXattr:
      result = lgetxattr(path.c_str(), name, value.data(), op.flags % 4 == 0 ? 0 : value.size());
      break;
    case Call::kRemoveXattr:
      return lremovexattr(path.c_str(), name);
    default:
      result = llistxattr(path.c_str(), value.data(), value.size());
      return result;  // in whatever order: the tree has their names
  }
  if (result > 0 && op.flags % 4 != 0) data.assign(value.data(), static_cast<std::size_t>(result));
  return result;
}

long Side::call(const Op& op, std::string& data) {
  const int fd = fds_[op.slot];
  const char* path = op.path.c_str();
  switch (op.call) {
    case Call::kOpen:
      return open_slot(op);
    case Call::kClose: {
      const long result = close(fd);
      fds_[op.slot] = -1;
      return result;
    }
    case Call::kRead:
    case Call::kPread: {
      std::byte* buffer = aligned_buffer();
      const ssize_t n = op.call == Call::kRead ? read(fd, buffer, op.length) : pread(fd, buffer, op.length, op.offset);
      if (n > 0) data.assign(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(n));
      return n;
    }
    case Call::kWrite:
      if (would_allocate_and_fail(fd, lseek(fd, 0, SEEK_CUR), op.length)) return 0;
      return write(fd, filled_buffer(op), write_length(fd, op.length));
    case Call::kPwrite:
      if (would_allocate_and_fail(fd, op.offset, op.length)) return 0;
      return pwrite(fd, filled_buffer(op), write_length(fd, op.length), op.offset);
    case Call::kSeek:
      if (is_directory(fd)) return 0;
      if (op.flags == SEEK_DATA || op.flags == SEEK_HOLE) settle(fd);
      return lseek(fd, op.offset, op.flags);
    case Call::kFtruncate:
      return ftruncate(fd, op.offset);
    case Call::kTruncate:
      return truncate((root_path_ + "/" + op.path).c_str(), op.offset);
    case Call::kFallocate:
      return fallocate(fd, op.flags, op.offset, static_cast<off_t>(op.length));
    case Call::kMapRead:
      return map(op, data, false);
    case Call::kMapWrite:
      return map(op, data, true);
    case Call::kFsync:
      return op.flags ? fsync(fd) : fdatasync(fd);
    case Call::kRename:
      return renameat2(root_, path, root_, op.other_path.c_str(), static_cast<unsigned>(op.flags));
    case Call::kLink:
      return linkat(root_, path, root_, op.other_path.c_str(), op.flags % 2 ? AT_SYMLINK_FOLLOW : 0);
    case Call::kLinkSlot:
      return linkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", fd).c_str(), root_, path, AT_SYMLINK_FOLLOW);
    case Call::kUnlink:
      return unlinkat(root_, path, 0);
    case Call::kRmdir:
      return unlinkat(root_, path, AT_REMOVEDIR);
    case Call::kMkdir:
      return mkdirat(root_, path, op.mode);
    case Call::kSymlink:
      return symlinkat(op.other_path.c_str(), root_, path);
    case Call::kReadlink: {
      std::array<char, 512> target;
      const ssize_t n = readlinkat(root_, path, target.data(), target.size());
      if (n > 0) data.assign(target.data(), static_cast<std::size_t>(n));
      return n;
    }
    case Call::kChmod:
      return fchmodat(root_, path, op.mode, 0);
    case Call::kFchmod:
      return fchmod(fd, op.mode);
    case Call::kChown:
      return fchownat(root_, path, op.flags & 1 ? kUser : -1, op.flags & 2 ? (op.flags & 4 ? kUser : 0) : -1,
                      AT_SYMLINK_NOFOLLOW);
    case Call::kUtimens: {
      const timespec times[2] = {{kLongAgo + op.offset, op.flags & 1   ? UTIME_NOW
                                                        : op.flags & 2 ? UTIME_OMIT
                                                                       : 12345},
                                 {kLongAgo + op.other_offset, op.flags & 4   ? UTIME_NOW
                                                              : op.flags & 8 ? UTIME_OMIT
                                                                             : 999'999'999}};
      return utimensat(root_, path, times, AT_SYMLINK_NOFOLLOW);
    }
    case Call::kSetXattr:
    case Call::kGetXattr:
    case Call::kRemoveXattr:
    case Call::kListXattr:
      return call_xattr(op, data);
    case Call::kCopyRange: {
      if (is_direct(fd) || is_direct(fds_[op.other_slot])) return 0;
      off_t from = op.offset, to = op.other_offset;
      const ssize_t n = copy_file_range(fd, &from, fds_[op.other_slot], &to, op.length, 0);
      data = fmt::format("{} {}", from, to);
      return n;
    }
    case Call::kSendfile: {
      if (is_direct(fd) || is_direct(fds_[op.other_slot]) || is_same(fd, fds_[op.other_slot])) return 0;
      off_t from = op.offset;
      const ssize_t n = sendfile(fds_[op.other_slot], fd, &from, op.length);
      data = fmt::format("{}", from);
      return n;
    }
    case Call::kStat:
      data = attributes(op.path);
      return 0;
    case Call::kFstat:
      data = attributes(op.slot);
      return 0;
    case Call::kAccess:
      return faccessat(root_, path, op.flags, 0);
    case Call::kList:
      return list(op, data);
    case Call::kMkfifo:
      return mknodat(root_, path, S_IFIFO | op.mode, 0);
    case Call::kCount:
      break;
  }
  return 0;
}

}  // namespace crashcut::tests::fsx
