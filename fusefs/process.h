// Process: the system calls of one process on a Filesystem: paths, descriptors, the working directory.
//
// A path may lead out of the filesystem (an absolute path elsewhere, ".." at the root, an absolute symlink):
//   the outcome is then Outside, with the path in the real system, and the caller decides. Every call
//   returns what the system call returns, a negative errno in place of -1.
// Models: open descriptions shared by dup, offsets, O_APPEND and the other flags, the umask, permission
//   checks by uid, gid and groups (uid 0 passes). Does not model: chroot, mounts inside the tree.
// Threads: the caller serialises.
#pragma once

#include <sys/uio.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "fusefs/filesystem.h"

namespace crashcut::fusefs {

// Returned if the path leads out of the filesystem. Process::outside_path() then says where it leads.
inline constexpr int kOutside = -1001;

class Process {
 public:
  struct Setup {
    Filesystem& filesystem;
    Credentials who;
    mode_t umask = 022;
    std::string root = "/crashcut";  // the absolute path under which programs see the filesystem
    // Whether a relative path starts in the filesystem. The working directory is the root at first.
    bool starts_inside = true;
    StickyProtection sticky_protection;
    // Reserves a descriptor number at or above `lowest`, or gives a negative errno. Null: the lowest number that this
    // process does not use, from 3 on.
    std::function<int(int lowest)> reserve_fd;
    std::function<void(int fd)> free_fd;
    Effects* effects = nullptr;  // null: nobody asks which calls commute
  };
  explicit Process(Setup setup);
  ~Process();

  // Where the last path that was kOutside leads: absolute, or relative to the real working directory.
  const std::string& outside_path() const;
  // The same for the first path of a call with two paths, if both were outside.
  const std::string& outside_from_path() const;

  bool owns(int fd) const;
  // The locks that calls on the descriptor take (Effects::lock_of_inode, lock_of_description); 0 if owns() is false.
  std::uint64_t inode_lock_of(int fd) const;
  std::uint64_t description_lock_of(int fd) const;

  // dirfd is AT_FDCWD or a descriptor of ours; a foreign dirfd is the caller's business.
  int openat(int dirfd, std::string_view path, int flags, mode_t mode);
  int close(int fd);
  int dup(int fd, int lowest, bool cloexec);     // dup, F_DUPFD, F_DUPFD_CLOEXEC
  int dup_to(int fd, int new_fd, bool cloexec);  // dup2, dup3: new_fd was closed by the caller if it was foreign
  std::int64_t read(int fd, std::span<const iovec> out);
  std::int64_t pread(int fd, std::span<const iovec> out, off_t offset);
  std::int64_t write(int fd, std::span<const iovec> in);
  std::int64_t pwrite(int fd, std::span<const iovec> in, off_t offset, int rwf_flags);
  // The errors that copy_file_range finds before it copies. `count` becomes the number of bytes to copy. Offsets are
  // absolute.
  int check_copy(int in, off_t in_at, int out, off_t out_at, std::size_t& count);
  off_t lseek(int fd, off_t offset, int whence);
  int ftruncate(int fd, off_t size);
  int truncate(std::string_view path, off_t size);
  int fallocate(int fd, int mode, off_t offset, off_t length);
  int fsync(int fd);
  int fdatasync(int fd);
  int sync();
  int syncfs(int fd);
  int sync_file_range(int fd, off_t offset, off_t length, unsigned flags);
  int fstat(int fd, struct stat& out);
  int fstatat(int dirfd, std::string_view path, struct stat& out, int flags);
  int faccessat(int dirfd, std::string_view path, int mask, int flags);
  int mkdirat(int dirfd, std::string_view path, mode_t mode);
  int mknodat(int dirfd, std::string_view path, mode_t mode, dev_t rdev);
  int unlinkat(int dirfd, std::string_view path, int flags);
  int linkat(int from_dirfd, std::string_view from, int to_dirfd, std::string_view to, int flags);
  int symlinkat(std::string_view target, int dirfd, std::string_view path);
  int readlinkat(int dirfd, std::string_view path, std::span<char> out);
  int renameat2(int from_dirfd, std::string_view from, int to_dirfd, std::string_view to, unsigned flags);
  int fchmod(int fd, mode_t mode);
  int fchmodat(int dirfd, std::string_view path, mode_t mode, int flags);
  int fchown(int fd, uid_t uid, gid_t gid);
  int fchownat(int dirfd, std::string_view path, uid_t uid, gid_t gid, int flags);
  int utimensat(int dirfd, std::string_view path, const timespec times[2],
                int flags);  // empty path and AT_EMPTY_PATH: the descriptor
  // getdents64 into `out`, linux_dirent64 records.
  int getdents64(int fd, std::span<std::byte> out);
  int chdir(std::string_view path);
  int fchdir(int fd);
  // Empty if the working directory is outside; "(unreachable)" if it was removed: getcwd(2) is then ENOENT.
  std::string getcwd() const;
  // The caller moved the working directory to a real one.
  void chdir_outside();
  mode_t set_umask(mode_t mask);
  void set_credentials(Credentials who);
  // xattrs: by path (follow or not) or, with an empty path, by fd.
  int set_xattr(int fd, std::string_view path, bool follow, const std::string& name, std::string_view value, int flags);
  int get_xattr(int fd, std::string_view path, bool follow, const std::string& name, std::string& value);
  int list_xattr(int fd, std::string_view path, bool follow, std::string& names);  // NUL-separated
  int remove_xattr(int fd, std::string_view path, bool follow, const std::string& name);
  int statfs(std::string_view path, struct statvfs& out);
  int fstatfs(int fd, struct statvfs& out);
  int get_flags(int fd);             // F_GETFL
  int set_flags(int fd, int flags);  // F_SETFL: O_APPEND, O_DIRECT, O_NOATIME, O_NONBLOCK
  int get_fd_flags(int fd);
  int set_fd_flags(int fd, int flags);
  int lock(int fd, int command, struct flock& lock);  // F_GETLK, F_SETLK and the OFD ones; -EAGAIN instead of waiting
  int flock(int fd, int operation);
  // A function by which a mapping reads the file. It keeps the open description, as the kernel's mapping does. It does
  // not count as an access: mmap did. Null if owns(fd) is false.
  using MappedRead = std::function<std::int64_t(std::uint64_t offset, std::span<std::byte> out)>;
  MappedRead map(int fd);
  // All descriptors, ascending.
  std::vector<int> descriptors() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crashcut::fusefs
