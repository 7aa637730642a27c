// What tests of the mounted filesystem are written in.
#pragma once

// them.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "tests/mounted.h"

namespace crashcut::tests {

using fusefs::Mount;
using Caching = Mount::Caching;
using Lines = std::vector<std::string>;
using Names = std::set<std::string>;

constexpr uid_t kUser = 1234;
constexpr std::size_t kPage = 4096;

// ---- small words
// ------------------------------------------------------------------------------------------------------

// A descriptor that closes itself.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) { EXPECT_GE(fd, 0) << std::strerror(errno); }
  ~Fd() { close_now(); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  operator int() const { return fd_; }
  void close_now() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// 0, or errno.
template <class Result>
inline int error_of(Result result) {
  return result < 0 ? errno : 0;
}

inline std::string read_some(int fd, std::size_t most, off_t offset = 0) {
  std::string text(most, '\0');
  const ssize_t n = pread(fd, text.data(), most, offset);
  EXPECT_GE(n, 0) << std::strerror(errno);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return text;
}

inline std::string read_file(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY));
  return read_some(fd, 1 << 16);
}

inline void write_all(int fd, std::string_view text) {
  EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size())) << std::strerror(errno);
}

inline void write_file(const std::string& path, std::string_view text, mode_t mode = 0644) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, mode));
  write_all(fd, text);
}

inline struct stat stat_of(const std::string& path) {
  struct stat now {};
  EXPECT_EQ(lstat(path.c_str(), &now), 0) << path << ": " << std::strerror(errno);
  return now;
}

inline Names names_in(const std::string& path) {
  Names names;
  DIR* dir = opendir(path.c_str());
  EXPECT_NE(dir, nullptr);
  if (!dir) return names;
  while (const dirent* entry = readdir(dir)) {
    if (std::string_view(entry->d_name) != "." && std::string_view(entry->d_name) != "..") {
      EXPECT_TRUE(names.insert(entry->d_name).second) << entry->d_name << " was listed twice";
    }
  }
  closedir(dir);
  return names;
}

// What `action` returns, in another process; below 0: a signal.
template <class Action>
inline int in_child(Action&& action) {
  const pid_t child = fork();
  if (child == 0) _exit(action());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// The same as another user, who is in no group of root's.
template <class Action>
inline int as_user(Action&& action) {
  return in_child([&] {
    if (syscall(SYS_setgroups, 0, nullptr) != 0 || setgid(kUser) != 0 || setuid(kUser) != 0) return 99;
    return action();
  });
}

inline std::string text_of(std::size_t size, char first) {
  std::string text(size, first);
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(first + i / 97 % 20);
  return text;
}

struct Mapping {
  Mapping(int fd, std::size_t length, int protection, int flags = MAP_SHARED)
      : bytes(static_cast<char*>(mmap(nullptr, length, protection, flags, fd, 0))), length(length) {
    EXPECT_NE(bytes, MAP_FAILED) << std::strerror(errno);
  }
  ~Mapping() { munmap(bytes, length); }
  char* bytes;
  std::size_t length;
};

// An aligned buffer for O_DIRECT.
struct Aligned {
  explicit Aligned(std::size_t size) : bytes(static_cast<char*>(aligned_alloc(kPage, size))) {}
  ~Aligned() { free(bytes); }
  char* bytes;
};

#define SKIP_WITHOUT_MOUNT() \
  if (const std::string why = why_no_mount(); !why.empty()) GTEST_SKIP() << why

}  // namespace crashcut::tests
