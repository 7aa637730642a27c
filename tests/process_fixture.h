// A Process with short names for what its tests do most.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "fusefs/process.h"

namespace crashcut::fusefs {

inline constexpr Credentials kRoot{};

// "name:type" of each linux_dirent64 record.
inline std::vector<std::string> parse_dirents(std::span<const std::byte> bytes) {
  std::vector<std::string> names;
  while (!bytes.empty()) {
    std::uint16_t length = 0;
    std::memcpy(&length, bytes.data() + 16, sizeof length);
    auto type = static_cast<unsigned char>(bytes[18]);
    names.push_back(std::string(reinterpret_cast<const char*>(bytes.data() + 19)) + ":" + std::to_string(type));
    bytes = bytes.subspan(length);
  }
  return names;
}

class ProcessTest : public testing::Test {
 protected:
  int open(std::string_view path, int flags, mode_t mode = 0644) {
    return process_.openat(AT_FDCWD, path, flags, mode);
  }
  int make_file(std::string_view path, std::string_view text = "", mode_t mode = 0644) {
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC, mode);
    EXPECT_GE(fd, 0) << path;
    EXPECT_EQ(write(fd, text), static_cast<std::int64_t>(text.size()));
    return process_.close(fd);
  }
  int mkdir(std::string_view path, mode_t mode = 0755) { return process_.mkdirat(AT_FDCWD, path, mode); }
  int symlink(std::string_view target, std::string_view path) { return process_.symlinkat(target, AT_FDCWD, path); }
  int link(std::string_view from, std::string_view to) { return process_.linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
  int rename(std::string_view from, std::string_view to, unsigned flags = 0) {
    return process_.renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
  }
  int unlink(std::string_view path) { return process_.unlinkat(AT_FDCWD, path, 0); }
  int rmdir(std::string_view path) { return process_.unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
  int stat(std::string_view path, int flags = 0) { return process_.fstatat(AT_FDCWD, path, stat_, flags); }

  static iovec part(std::string_view text) { return {const_cast<char*>(text.data()), text.size()}; }
  std::int64_t write(int fd, std::string_view text) {
    iovec one = part(text);
    return process_.write(fd, {&one, 1});
  }
  std::int64_t pwrite(int fd, std::string_view text, off_t offset, int rwf_flags = 0) {
    iovec one = part(text);
    return process_.pwrite(fd, {&one, 1}, offset, rwf_flags);
  }
  std::string pread(int fd, std::size_t count, off_t offset) {
    std::string text(count, '?');
    iovec one{text.data(), count};
    std::int64_t got = process_.pread(fd, {&one, 1}, offset);
    return got < 0 ? "errno " + std::to_string(-got) : text.substr(0, static_cast<std::size_t>(got));
  }
  std::int64_t read_some(Process& process, int fd, char* to, std::size_t count) {
    iovec one{to, count};
    return process.read(fd, {&one, 1});
  }

  Filesystem filesystem_{{}};
  Process process_{{.filesystem = filesystem_, .who = kRoot}};
  Process nobody_{{.filesystem = filesystem_, .who = {.uid = 65534, .gid = 65534}}};
  struct stat stat_ {};
};

}  // namespace crashcut::fusefs
