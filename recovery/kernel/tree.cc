#include "recovery/kernel/tree.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "recovery/sandbox/fd.h"

namespace crashcut::kernel {

mounted::AskedDisk::File MountedTree::find(const std::string& path) {
  found_ = directory_ + "/" + path;
  struct stat found {};
  if (lstat(found_.c_str(), &found) != 0) return {};
  size_ = static_cast<std::uint64_t>(found.st_size);
  return {found.st_mode & S_IFMT, {}};
}

std::string MountedTree::target() {
  std::string text(PATH_MAX, '\0');
  const ssize_t size = readlink(found_.c_str(), text.data(), text.size());
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

std::string MountedTree::read(std::uint64_t offset, std::size_t length) {
  std::string piece(length, '\0');
  std::size_t got = 0;
  const sandbox::Fd file(open(found_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  while (file && got < length) {
    const ssize_t count = pread(file.get(), piece.data() + got, length - got, static_cast<off_t>(offset + got));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    got += static_cast<std::size_t>(count);
  }
  piece.resize(got);
  return piece;
}

bool MountedTree::reached(const std::string& mark) {
  return std::find(marks_.begin(), marks_.end(), mark) != marks_.end();
}

}  // namespace crashcut::kernel
