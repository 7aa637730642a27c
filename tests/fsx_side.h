// One of the two filesystems that fsx_test compares: a directory in it, and open files.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>

#include "tests/fsx_operations.h"

namespace crashcut::tests::fsx {

class Side {
 public:
  explicit Side(const std::string& root) : root_path_(root) {
    mkdir(root.c_str(), 0777);
    chmod(root.c_str(), 0777);
    root_ = open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fds_.fill(-1);
  }
  ~Side() {
    for (const int fd : fds_) {
      if (fd >= 0) close(fd);
    }
    if (root_ >= 0) close(root_);
    std::error_code error;
    std::filesystem::remove_all(root_path_, error);
    EXPECT_FALSE(error) << root_path_ << ": " << error.message();
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  bool is_open() const { return root_ >= 0; }

  Outcome apply(const Op& op) {
    if (op.as_user) {
      setfsgid(kUser);
      setfsuid(kUser);
    }
    Outcome outcome;
    errno = 0;
    outcome.result = call(op, outcome.data);
    outcome.error = outcome.result < 0 ? errno : 0;
    if (op.as_user) {
      setfsuid(0);
      setfsgid(0);
    }
    return outcome;
  }

  // Attributes of what a path or a slot leads to.
  std::string attributes(const std::string& path) const {
    struct stat now {};
    return fstatat(root_, path.c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0 ? text(now) : std::strerror(errno);
  }
  std::string attributes(std::size_t slot) const {
    struct stat now {};
    return fstat(fds_[slot], &now) == 0 ? text(now) : std::strerror(errno);
  }
  // Its flags and where it has data.
  std::string layout(std::size_t slot) const {
    const int fd = fds_[slot];
    std::string shown = fmt::format("flags {:#o}", static_cast<unsigned>(fcntl(fd, F_GETFL)));
    const off_t kept = lseek(fd, 0, SEEK_CUR);
    for (off_t data, hole = 0; (data = lseek(fd, hole, SEEK_DATA)) >= 0 && (hole = lseek(fd, data, SEEK_HOLE)) >= 0;)
      shown += fmt::format(", data {} to {}", data, hole);
    lseek(fd, kept, SEEK_SET);
    return shown;
  }

  // Everything below the root, a line each.
  std::string tree() const {
    std::string all;
    list_tree("", all);
    for (std::size_t slot = 0; slot < kSlots; ++slot) all += fmt::format("slot {}: {}\n", slot, attributes(slot));
    return all;
  }

 private:
  static std::string time_text(const timespec& time) {
    return time.tv_sec > kRecent ? "now" : fmt::format("{}.{}", time.tv_sec, time.tv_nsec);
  }
  static std::string text(struct stat now) {
    if (S_ISFIFO(now.st_mode)) now.st_atim = now.st_mtim = now.st_ctim = {};
    return fmt::format("mode {:06o} nlink {} owner {} {} size {} rdev {} blksize {} times {} {} {}", now.st_mode,
                       now.st_nlink, now.st_uid, now.st_gid, S_ISDIR(now.st_mode) ? 0 : now.st_size, now.st_rdev,
                       now.st_blksize, time_text(now.st_atim), time_text(now.st_mtim), time_text(now.st_ctim));
  }
  static std::string content(int fd) {
    std::string bytes(1 << 20, '\0');
    std::size_t done = 0;
    for (ssize_t n; (n = pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done))) > 0;)
      done += static_cast<std::size_t>(n);
    bytes.resize(done);
    return bytes;
  }
  static std::string xattrs(int fd) {
    std::array<char, 4096> names;
    const ssize_t length = flistxattr(fd, names.data(), names.size());
    if (length < 0) return std::strerror(errno);
    std::vector<std::string> all;
    for (ssize_t at = 0; at < length;) {
      const std::string name = names.data() + at;
      std::array<char, 8192> value;
      const ssize_t size = fgetxattr(fd, name.c_str(), value.data(), value.size());
      all.push_back(name + "=" + std::string(value.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))));
      at += static_cast<ssize_t>(name.size()) + 1;
    }
    std::sort(all.begin(), all.end());
    return fmt::format("{}", fmt::join(all, ","));
  }
  static std::vector<std::pair<std::string, int>> names_in(int dir) {
    std::vector<std::pair<std::string, int>> names;
    DIR* listing = fdopendir(dup(dir));
    rewinddir(listing);
    while (const dirent* entry = readdir(listing)) names.emplace_back(entry->d_name, entry->d_type);
    closedir(listing);
    std::sort(names.begin(), names.end());
    return names;
  }
  void list_tree(const std::string& below, std::string& all) const {
    const int dir = openat(root_, below.empty() ? "." : below.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (const auto& [name, type] : names_in(dir)) {
      if (name == "." || name == "..") continue;
      const std::string path = below.empty() ? name : below + "/" + name;
      all += fmt::format("{} type {} {}", path, type, attributes(path));
      if (type == DT_LNK) {
        std::array<char, 512> target{};
        all +=
            fmt::format(" -> {} {}", readlinkat(root_, path.c_str(), target.data(), target.size() - 1), target.data());
      } else if (type == DT_REG || type == DT_DIR) {
        const int fd = openat(root_, path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        all += " xattrs " + xattrs(fd);
        if (type == DT_REG) all += fmt::format(" content {:x}", std::hash<std::string>()(content(fd)));
        close(fd);
      }
      all += "\n";
      if (type == DT_DIR) list_tree(path, all);
    }
    close(dir);
  }

  std::byte* aligned_buffer() {
    static std::byte* const buffer =
        static_cast<std::byte*>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    return buffer;
  }
  std::byte* filled_buffer(const Op& op) {
    std::byte* buffer = aligned_buffer();
    for (std::size_t i = 0; i < op.length; ++i) buffer[i] = static_cast<std::byte>(op.fill + i / 512 % 20);
    return buffer;
  }

  static bool is_directory(int fd) {
    struct stat now {};
    return fstat(fd, &now) == 0 && S_ISDIR(now.st_mode);
  }
  static bool is_direct(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_DIRECT);
  }
  static bool is_same(int a, int b) {
    struct stat x {
    }, y{};
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
  }
  static std::size_t write_length(int fd, std::size_t length) {
    return is_direct(fd) && length > 512 ? length / 512 * 512 : length;
  }
  // A direct write of a part of a sector, to where there is no data.
  static bool would_allocate_and_fail(int fd, off_t offset, std::size_t length) {
    if (!is_direct(fd) || (offset % 512 == 0 && write_length(fd, length) % 512 == 0)) return false;
    const off_t kept = lseek(fd, 0, SEEK_CUR);
    settle(fd);
    const bool has_data = lseek(fd, offset, SEEK_DATA) == offset;
    lseek(fd, kept, SEEK_SET);
    return !has_data;
  }
  // A preallocated block that somebody has read is data to ext4 for as long as the page is in memory.
  static void settle(int fd) {
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  }

  long call(const Op& op, std::string& data);
  long open_slot(const Op& op);
  long map(const Op& op, std::string& data, bool writes);
  long list(const Op& op, std::string& data);
  long call_xattr(const Op& op, std::string& data);

  std::string root_path_;
  int root_ = -1;
  std::array<int, kSlots> fds_{};
};

}  // namespace crashcut::tests::fsx
