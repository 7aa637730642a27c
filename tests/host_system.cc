#include "tests/host_system.h"

#include <linux/limits.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

#include "fusefs/process.h"

namespace crashcut::fusefs {
namespace {

constexpr const char* kModelRoot = "/crashcut";

int host_setting(const std::string& name) {
  int value = 0;
  std::ifstream("/proc/sys/fs/" + name) >> value;
  return value;
}

// How the host is set up is not a property of its filesystem.
StickyProtection host_protection() {
  return {.symlinks = host_setting("protected_symlinks"),
          .regular = host_setting("protected_regular"),
          .fifos = host_setting("protected_fifos")};
}

class ModelSystem final : public System {
 public:
  ModelSystem(Filesystem& filesystem, Credentials who)
      : process_({.filesystem = filesystem,
                  .who = std::move(who),
                  .root = kModelRoot,
                  .sticky_protection = host_protection()}) {}

  std::int64_t open_file(int dir, const std::string& path, int flags, mode_t mode) override {
    return process_.openat(dir, path, flags, mode);
  }
  std::int64_t close_file(int fd) override { return process_.close(fd); }
  std::int64_t dup_file(int fd) override { return process_.dup(fd, 0, false); }
  std::int64_t get_flags(int fd) override { return process_.get_flags(fd); }
  std::int64_t set_flags(int fd, int flags) override { return process_.set_flags(fd, flags); }
  std::int64_t chdir(const std::string& path) override { return process_.chdir(path); }
  std::int64_t fchdir(int fd) override { return process_.fchdir(fd); }
  std::string root() const override { return kModelRoot; }
  std::int64_t getcwd(std::string& path) override {
    path = process_.getcwd();
    if (path == "(unreachable)") return -ENOENT;
    path.erase(0, std::string(kModelRoot).size());
    return 0;
  }

  std::int64_t read(int fd, iovec out) override { return process_.read(fd, {&out, 1}); }
  std::int64_t pread(int fd, iovec out, off_t offset) override { return process_.pread(fd, {&out, 1}, offset); }
  std::int64_t write(int fd, iovec in) override { return process_.write(fd, {&in, 1}); }
  std::int64_t pwrite(int fd, iovec in, off_t offset, int flags) override {
    return process_.pwrite(fd, {&in, 1}, offset, flags);
  }
  std::int64_t seek(int fd, off_t offset, int whence) override { return process_.lseek(fd, offset, whence); }
  std::int64_t ftruncate(int fd, off_t size) override { return process_.ftruncate(fd, size); }
  std::int64_t truncate(const std::string& path, off_t size) override { return process_.truncate(path, size); }
  std::int64_t fallocate(int fd, int mode, off_t offset, off_t length) override {
    return process_.fallocate(fd, mode, offset, length);
  }
  std::int64_t getdents(int fd, std::span<std::byte> out) override { return process_.getdents64(fd, out); }
  void drop_cache(int) override {}

  std::int64_t stat(int dir, const std::string& path, struct stat& out, int flags) override {
    return process_.fstatat(dir, path, out, flags);
  }
  std::int64_t access(int dir, const std::string& path, int mask) override {
    return process_.faccessat(dir, path, mask, AT_EACCESS);
  }
  std::int64_t mkdir(int dir, const std::string& path, mode_t mode) override {
    return process_.mkdirat(dir, path, mode);
  }
  std::int64_t mknod(int dir, const std::string& path, mode_t mode, dev_t rdev) override {
    return process_.mknodat(dir, path, mode, rdev);
  }
  std::int64_t unlink(int dir, const std::string& path, int flags) override {
    return process_.unlinkat(dir, path, flags);
  }
  std::int64_t link(int from_dir, const std::string& from, int to_dir, const std::string& to, int flags) override {
    return process_.linkat(from_dir, from, to_dir, to, flags);
  }
  std::int64_t symlink(const std::string& target, int dir, const std::string& path) override {
    return process_.symlinkat(target, dir, path);
  }
  std::int64_t readlink(int dir, const std::string& path, std::span<char> out) override {
    return process_.readlinkat(dir, path, out);
  }
  std::int64_t rename(int from_dir, const std::string& from, int to_dir, const std::string& to,
                      unsigned flags) override {
    return process_.renameat2(from_dir, from, to_dir, to, flags);
  }

  std::int64_t fchmod(int fd, mode_t mode) override { return process_.fchmod(fd, mode); }
  std::int64_t chmod(int dir, const std::string& path, mode_t mode) override {
    return process_.fchmodat(dir, path, mode, 0);
  }
  std::int64_t chown(int dir, const std::string& path, uid_t uid, gid_t gid, int flags) override {
    return process_.fchownat(dir, path, uid, gid, flags);
  }
  std::int64_t utimens(int dir, const std::string& path, const timespec times[2], int flags) override {
    return process_.utimensat(dir, path, times, flags);
  }
  std::int64_t statfs(const std::string& path, struct statvfs& out) override { return process_.statfs(path, out); }
  std::int64_t set_xattr(int fd, const std::string& path, bool follow, const std::string& name,
                         const std::string& value, int flags) override {
    return process_.set_xattr(fd, path, follow, name, value, flags);
  }
  std::int64_t get_xattr(int fd, const std::string& path, bool follow, const std::string& name,
                         std::string& value) override {
    return process_.get_xattr(fd, path, follow, name, value);
  }
  std::int64_t list_xattr(int fd, const std::string& path, bool follow, std::string& names) override {
    return process_.list_xattr(fd, path, follow, names);
  }
  std::int64_t remove_xattr(int fd, const std::string& path, bool follow, const std::string& name) override {
    return process_.remove_xattr(fd, path, follow, name);
  }

  std::int64_t lock(int fd, int command, struct flock& lock) override { return process_.lock(fd, command, lock); }
  std::int64_t flock(int fd, int operation) override { return process_.flock(fd, operation); }

 private:
  Process process_;
};

class HostSystem final : public System {
 public:
  HostSystem(int root_fd, const Credentials& who) : uid_(who.uid), gid_(who.gid) {
    ::fchdir(root_fd);
    char root[PATH_MAX];
    root_ = ::getcwd(root, sizeof root) ? root : "";
    cwd_ = ::open(".", O_PATH | O_DIRECTORY);
  }
  ~HostSystem() override {
    for (int slot = 0; slot < kSlots; ++slot) close(slot);
    ::close(cwd_);
  }

  std::int64_t open_file(int dir, const std::string& path, int flags, mode_t mode) override {
    return call(SYS_openat, dir, path.c_str(), flags, mode);
  }
  std::int64_t close_file(int fd) override { return call(SYS_close, fd); }
  std::int64_t dup_file(int fd) override { return call(SYS_dup, fd); }
  std::int64_t get_flags(int fd) override { return call(SYS_fcntl, fd, F_GETFL); }
  std::int64_t set_flags(int fd, int flags) override { return call(SYS_fcntl, fd, F_SETFL, flags); }
  std::int64_t chdir(const std::string& path) override { return keep_cwd(call(SYS_chdir, path.c_str())); }
  std::int64_t fchdir(int fd) override { return keep_cwd(call(SYS_fchdir, fd)); }
  std::string root() const override { return root_; }
  std::int64_t getcwd(std::string& path) override {
    char buffer[PATH_MAX];
    std::int64_t result = call(SYS_getcwd, buffer, sizeof buffer);
    if (result < 0) return result;
    path = std::string(buffer).substr(root_.size());
    return 0;
  }

  std::int64_t read(int fd, iovec out) override { return call(SYS_read, fd, out.iov_base, out.iov_len); }
  std::int64_t pread(int fd, iovec out, off_t offset) override {
    return call(SYS_pread64, fd, out.iov_base, out.iov_len, offset);
  }
  std::int64_t write(int fd, iovec in) override { return call(SYS_write, fd, in.iov_base, in.iov_len); }
  // pwritev2 reads an offset of -1 as the current one.
  std::int64_t pwrite(int fd, iovec in, off_t offset, int flags) override {
    if (flags == 0) return call(SYS_pwrite64, fd, in.iov_base, in.iov_len, offset);
    return call(SYS_pwritev2, fd, &in, 1, offset, 0, flags);
  }
  std::int64_t seek(int fd, off_t offset, int whence) override { return call(SYS_lseek, fd, offset, whence); }
  std::int64_t ftruncate(int fd, off_t size) override { return call(SYS_ftruncate, fd, size); }
  std::int64_t truncate(const std::string& path, off_t size) override { return call(SYS_truncate, path.c_str(), size); }
  std::int64_t fallocate(int fd, int mode, off_t offset, off_t length) override {
    return call(SYS_fallocate, fd, mode, offset, length);
  }
  std::int64_t getdents(int fd, std::span<std::byte> out) override {
    return call(SYS_getdents64, fd, out.data(), out.size());
  }
  // No flush: data on its way to the disk is enough for the page cache to let go of it.
  void drop_cache(int fd) override {
    constexpr unsigned kAll = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    call(SYS_sync_file_range, fd, 0, 0, kAll);
    call(SYS_fadvise64, fd, 0, 0, POSIX_FADV_DONTNEED);
  }

  std::int64_t stat(int dir, const std::string& path, struct stat& out, int flags) override {
    return call(SYS_newfstatat, dir, path.c_str(), &out, flags);
  }
  std::int64_t access(int dir, const std::string& path, int mask) override {
    return call(SYS_faccessat2, dir, path.c_str(), mask, AT_EACCESS);
  }
  std::int64_t mkdir(int dir, const std::string& path, mode_t mode) override {
    return call(SYS_mkdirat, dir, path.c_str(), mode);
  }
  std::int64_t mknod(int dir, const std::string& path, mode_t mode, dev_t rdev) override {
    return call(SYS_mknodat, dir, path.c_str(), mode, rdev);
  }
  std::int64_t unlink(int dir, const std::string& path, int flags) override {
    return call(SYS_unlinkat, dir, path.c_str(), flags);
  }
  std::int64_t link(int from_dir, const std::string& from, int to_dir, const std::string& to, int flags) override {
    return call(SYS_linkat, from_dir, from.c_str(), to_dir, to.c_str(), flags);
  }
  std::int64_t symlink(const std::string& target, int dir, const std::string& path) override {
    return call(SYS_symlinkat, target.c_str(), dir, path.c_str());
  }
  std::int64_t readlink(int dir, const std::string& path, std::span<char> out) override {
    return call(SYS_readlinkat, dir, path.c_str(), out.data(), out.size());
  }
  std::int64_t rename(int from_dir, const std::string& from, int to_dir, const std::string& to,
                      unsigned flags) override {
    return call(SYS_renameat2, from_dir, from.c_str(), to_dir, to.c_str(), flags);
  }

  std::int64_t fchmod(int fd, mode_t mode) override { return call(SYS_fchmod, fd, mode); }
  std::int64_t chmod(int dir, const std::string& path, mode_t mode) override {
    return call(SYS_fchmodat, dir, path.c_str(), mode);
  }
  std::int64_t chown(int dir, const std::string& path, uid_t uid, gid_t gid, int flags) override {
    return call(SYS_fchownat, dir, path.c_str(), uid, gid, flags);
  }
  std::int64_t utimens(int dir, const std::string& path, const timespec times[2], int flags) override {
    return call(SYS_utimensat, dir, path.c_str(), times, flags);
  }
  std::int64_t statfs(const std::string& path, struct statvfs& out) override {
    struct statfs found {};
    std::int64_t result = call(SYS_statfs, path.c_str(), &found);
    out = {.f_bsize = static_cast<unsigned long>(found.f_bsize),
           .f_frsize = static_cast<unsigned long>(found.f_frsize),
           .f_blocks = found.f_blocks,
           .f_bfree = found.f_bfree,
           .f_bavail = found.f_bavail,
           .f_files = found.f_files,
           .f_ffree = found.f_ffree,
           .f_namemax = static_cast<unsigned long>(found.f_namelen)};
    return result;
  }
  std::int64_t set_xattr(int fd, const std::string& path, bool follow, const std::string& name,
                         const std::string& value, int flags) override {
    if (path.empty()) return call(SYS_fsetxattr, fd, name.c_str(), value.data(), value.size(), flags);
    return call(follow ? SYS_setxattr : SYS_lsetxattr, path.c_str(), name.c_str(), value.data(), value.size(), flags);
  }
  std::int64_t get_xattr(int fd, const std::string& path, bool follow, const std::string& name,
                         std::string& value) override {
    value.resize(XATTR_SIZE_MAX);
    std::int64_t size = path.empty() ? call(SYS_fgetxattr, fd, name.c_str(), value.data(), value.size())
                                     : call(follow ? SYS_getxattr : SYS_lgetxattr, path.c_str(), name.c_str(),
                                            value.data(), value.size());
    value.resize(static_cast<std::size_t>(std::max<std::int64_t>(size, 0)));
    return std::min<std::int64_t>(size, 0);
  }
  std::int64_t list_xattr(int fd, const std::string& path, bool follow, std::string& names) override {
    names.resize(XATTR_LIST_MAX);
    std::int64_t size = path.empty()
                            ? call(SYS_flistxattr, fd, names.data(), names.size())
                            : call(follow ? SYS_listxattr : SYS_llistxattr, path.c_str(), names.data(), names.size());
    names.resize(static_cast<std::size_t>(std::max<std::int64_t>(size, 0)));
    return std::min<std::int64_t>(size, 0);
  }
  std::int64_t remove_xattr(int fd, const std::string& path, bool follow, const std::string& name) override {
    if (path.empty()) return call(SYS_fremovexattr, fd, name.c_str());
    return call(follow ? SYS_removexattr : SYS_lremovexattr, path.c_str(), name.c_str());
  }

  std::int64_t lock(int fd, int command, struct flock& lock) override { return call(SYS_fcntl, fd, command, &lock); }
  std::int64_t flock(int fd, int operation) override { return call(SYS_flock, fd, operation); }

 private:
  // As the user and from its working directory: only the system call itself runs with its rights. The raw calls
  // change this thread alone.
  template <class... Args>
  std::int64_t call(long number, Args... args) {
    constexpr uid_t kSame = static_cast<uid_t>(-1);
    ::fchdir(cwd_);
    bool switches = uid_ != ::geteuid();
    if (switches) ::syscall(SYS_setresgid, kSame, gid_, kSame);
    if (switches) ::syscall(SYS_setresuid, kSame, uid_, kSame);
    std::int64_t result = ::syscall(number, args...);
    if (result < 0) result = -errno;
    if (switches) ::syscall(SYS_setresuid, kSame, 0, kSame);
    if (switches) ::syscall(SYS_setresgid, kSame, 0, kSame);
    return result;
  }

  std::int64_t keep_cwd(std::int64_t result) {
    if (result < 0) return result;
    ::close(cwd_);
    cwd_ = ::open(".", O_PATH | O_DIRECTORY);
    return 0;
  }

  uid_t uid_;
  gid_t gid_;
  std::string root_;
  int cwd_ = -1;
};

}  // namespace

std::unique_ptr<System> make_model_system(Filesystem& filesystem, const Credentials& who) {
  return std::make_unique<ModelSystem>(filesystem, who);
}

std::unique_ptr<System> make_host_system(int root_fd, const Credentials& who) {
  return std::make_unique<HostSystem>(root_fd, who);
}

}  // namespace crashcut::fusefs
