#include "recovery/inprocess/call_text.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

namespace crashcut::inprocess {

std::string fd_text(int fd) {
  const auto found = g.model->names.find(fd);
  return found == g.model->names.end() ? fmt::format("{}", fd) : fmt::format("{} {}", fd, found->second);
}

std::string quoted(std::string_view bytes, std::size_t most) {
  const std::string_view shown = bytes.substr(0, most);
  std::string text = "\"";
  for (std::size_t i = 0; i < shown.size();) {
    const auto c = static_cast<unsigned char>(shown[i]);
    const std::size_t length = utf8_length(shown.substr(i));
    if (c == '"' || c == '\\') {
      text += '\\';
      text += static_cast<char>(c);
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else if (c < 0x20 || c == 0x7f || length == 0) {
      text += fmt::format("\\x{:02x}", c);
    } else {
      text += shown.substr(i, length);
    }
    i += std::max<std::size_t>(length, 1);
  }
  text += bytes.size() > most ? "\"..." : "\"";
  return text;
}

std::string path_text(int dirfd, std::string_view path) {
  const std::string name = quoted(path, 256);
  return dirfd == AT_FDCWD ? name : fmt::format("{}, {}", fd_text(dirfd), name);
}

std::string open_flags_text(int flags) {
  struct Name {
    int bits;
    const char* name;
  };
  // Combined ones first: O_SYNC holds O_DSYNC, O_TMPFILE holds O_DIRECTORY.
  static constexpr Name kNames[] = {
      {O_CREAT, "O_CREAT"},         {O_EXCL, "O_EXCL"},         {O_TRUNC, "O_TRUNC"},   {O_APPEND, "O_APPEND"},
      {O_SYNC, "O_SYNC"},           {O_DSYNC, "O_DSYNC"},       {O_DIRECT, "O_DIRECT"}, {O_TMPFILE, "O_TMPFILE"},
      {O_DIRECTORY, "O_DIRECTORY"}, {O_NOFOLLOW, "O_NOFOLLOW"}, {O_PATH, "O_PATH"},     {O_NONBLOCK, "O_NONBLOCK"},
  };
  const int access = flags & O_ACCMODE;
  std::string text = access == O_RDONLY ? "O_RDONLY" : access == O_WRONLY ? "O_WRONLY" : "O_RDWR";
  for (const Name& n : kNames) {
    if ((flags & n.bits) != n.bits) continue;
    text += fmt::format("|{}", n.name);
    flags &= ~n.bits;
  }
  return text;
}

std::string bytes_text(std::span<const iovec> parts) {
  constexpr std::size_t kMost = 24;
  std::size_t total = 0;
  std::string beginning;
  for (const iovec& part : parts) {
    total += part.iov_len;
    if (beginning.size() <= kMost) {
      beginning.append(static_cast<const char*>(part.iov_base), std::min(part.iov_len, kMost + 1 - beginning.size()));
    }
  }
  return fmt::format("{} byte{}: {}", total, total == 1 ? "" : "s", quoted(beginning, kMost));
}

}  // namespace crashcut::inprocess
