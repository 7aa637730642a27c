// System: the calls that the tests against the host make, on a Process and on the host's own filesystem.
//
// Descriptors are kept in slots, so that one program runs on both sides; paths start at the working directory.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "fusefs/filesystem.h"
#include "fusefs/types.h"

namespace crashcut::fusefs {

inline constexpr int kSlots = 5;
inline constexpr int kBadFd = 9999;

class System {
 public:
  System() { fds_.fill(kBadFd); }
  virtual ~System() = default;

  int fd(int slot) const { return fds_[static_cast<std::size_t>(slot)]; }
  // Where a path of `slot` starts; -1: at the working directory.
  int dir(int slot) const { return slot < 0 ? AT_FDCWD : fd(slot); }
  // Into a slot that was closed before.
  std::int64_t open(int slot, int dir_slot, const std::string& path, int flags, mode_t mode) {
    return keep(slot, open_file(dir(dir_slot), path, flags, mode));
  }
  std::int64_t close(int slot) { return close_file(std::exchange(fds_[static_cast<std::size_t>(slot)], kBadFd)); }
  std::int64_t dup(int from, int to) { return keep(to, dup_file(fd(from))); }

  virtual std::int64_t open_file(int dir, const std::string& path, int flags, mode_t mode) = 0;
  virtual std::int64_t close_file(int fd) = 0;
  virtual std::int64_t dup_file(int fd) = 0;
  virtual std::int64_t get_flags(int fd) = 0;
  virtual std::int64_t set_flags(int fd, int flags) = 0;
  virtual std::int64_t chdir(const std::string& path) = 0;
  virtual std::int64_t fchdir(int fd) = 0;
  // The tree's root, an absolute path.
  virtual std::string root() const = 0;
  // Below the root of the tree, "" for the root itself.
  virtual std::int64_t getcwd(std::string& path) = 0;

  virtual std::int64_t read(int fd, iovec out) = 0;
  virtual std::int64_t pread(int fd, iovec out, off_t offset) = 0;
  virtual std::int64_t write(int fd, iovec in) = 0;
  virtual std::int64_t pwrite(int fd, iovec in, off_t offset, int flags) = 0;
  virtual std::int64_t seek(int fd, off_t offset, int whence) = 0;
  virtual std::int64_t ftruncate(int fd, off_t size) = 0;
  virtual std::int64_t truncate(const std::string& path, off_t size) = 0;
  virtual std::int64_t fallocate(int fd, int mode, off_t offset, off_t length) = 0;
  virtual std::int64_t getdents(int fd, std::span<std::byte> out) = 0;
  // Cached blocks are written out and forgotten, as far as that can be seen at all.
  virtual void drop_cache(int fd) = 0;

  virtual std::int64_t stat(int dir, const std::string& path, struct stat& out, int flags) = 0;
  virtual std::int64_t access(int dir, const std::string& path, int mask) = 0;
  virtual std::int64_t mkdir(int dir, const std::string& path, mode_t mode) = 0;
  virtual std::int64_t mknod(int dir, const std::string& path, mode_t mode, dev_t rdev) = 0;
  virtual std::int64_t unlink(int dir, const std::string& path, int flags) = 0;
  virtual std::int64_t link(int from_dir, const std::string& from, int to_dir, const std::string& to, int flags) = 0;
  virtual std::int64_t symlink(const std::string& target, int dir, const std::string& path) = 0;
  virtual std::int64_t readlink(int dir, const std::string& path, std::span<char> out) = 0;
  virtual std::int64_t rename(int from_dir, const std::string& from, int to_dir, const std::string& to,
                              unsigned flags) = 0;

  virtual std::int64_t fchmod(int fd, mode_t mode) = 0;
  virtual std::int64_t chmod(int dir, const std::string& path, mode_t mode) = 0;
  virtual std::int64_t chown(int dir, const std::string& path, uid_t uid, gid_t gid, int flags) = 0;
  virtual std::int64_t utimens(int dir, const std::string& path, const timespec times[2], int flags) = 0;
  virtual std::int64_t statfs(const std::string& path, struct statvfs& out) = 0;
  // By path, or by descriptor where the path is empty.
  virtual std::int64_t set_xattr(int fd, const std::string& path, bool follow, const std::string& name,
                                 const std::string& value, int flags) = 0;
  virtual std::int64_t get_xattr(int fd, const std::string& path, bool follow, const std::string& name,
                                 std::string& value) = 0;
  virtual std::int64_t list_xattr(int fd, const std::string& path, bool follow, std::string& names) = 0;
  virtual std::int64_t remove_xattr(int fd, const std::string& path, bool follow, const std::string& name) = 0;

  virtual std::int64_t lock(int fd, int command, struct flock& lock) = 0;
  virtual std::int64_t flock(int fd, int operation) = 0;

 private:
  std::int64_t keep(int slot, std::int64_t opened) {
    fds_[static_cast<std::size_t>(slot)] = opened < 0 ? kBadFd : static_cast<int>(opened);
    return std::min<std::int64_t>(opened, 0);
  }

  std::array<int, kSlots> fds_;
};

std::unique_ptr<System> make_model_system(Filesystem& filesystem, const Credentials& who);
// `root_fd` is the directory to work in; it outlives the system.
std::unique_ptr<System> make_host_system(int root_fd, const Credentials& who);

}  // namespace crashcut::fusefs
