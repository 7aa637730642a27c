#include "recovery/mounted/copy_out.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

namespace crashcut::mounted {
namespace {

using fusefs::Filesystem;
using fusefs::Ino;

class CopyOut {
 public:
  explicit CopyOut(Filesystem& filesystem) : filesystem_(filesystem) {}

  void copy_directory(Ino dir, const std::string& to) {
    if (mkdir(to.c_str(), 0700) != 0 && errno != EEXIST) note("make", to);
    std::vector<fusefs::DirEntry> entries;
    filesystem_.readdir(dir, 0, ~std::size_t{0}, entries);
    for (const fusefs::DirEntry& entry : entries) {
      if (entry.name != "." && entry.name != "..") copy(entry, to + "/" + entry.name);
    }
    copy_attributes(dir, to);
  }

  std::string failure;

 private:
  void copy(const fusefs::DirEntry& entry, const std::string& to) {
    if (S_ISDIR(entry.type)) return copy_directory(entry.ino, to);
    const auto [first, is_new] = made_.emplace(entry.ino, to);
    if (!is_new) {
      if (link(first->second.c_str(), to.c_str()) != 0) note("link", to);
      return;
    }
    struct stat attributes {};
    filesystem_.getattr(entry.ino, attributes);
    if (S_ISREG(entry.type)) {
      copy_file(entry.ino, to);
    } else if (S_ISLNK(entry.type)) {
      std::string target;
      filesystem_.readlink(entry.ino, target);
      if (symlink(target.c_str(), to.c_str()) != 0) note("make", to);
    } else if (mknod(to.c_str(), attributes.st_mode, attributes.st_rdev) != 0) {
      note("make", to);
    }
    copy_attributes(entry.ino, to);
  }

  void copy_file(Ino ino, const std::string& to) {
    const int fd = open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return note("make", to);
    std::vector<std::byte> piece(1 << 20);
    std::uint64_t offset = 0;
    for (std::int64_t got; (got = filesystem_.read(ino, offset, piece)) > 0;
         offset += static_cast<std::uint64_t>(got)) {
      if (pwrite(fd, piece.data(), static_cast<std::size_t>(got), static_cast<off_t>(offset)) != got) {
        note("write", to);
        break;
      }
    }
    close(fd);
  }

  void copy_attributes(Ino ino, const std::string& to) {
    struct stat attributes {};
    filesystem_.getattr(ino, attributes);
    if (geteuid() == 0) fchownat(AT_FDCWD, to.c_str(), attributes.st_uid, attributes.st_gid, AT_SYMLINK_NOFOLLOW);
    if (!S_ISLNK(attributes.st_mode)) chmod(to.c_str(), attributes.st_mode & 07777);
    const timespec times[2] = {attributes.st_atim, attributes.st_mtim};
    utimensat(AT_FDCWD, to.c_str(), times, AT_SYMLINK_NOFOLLOW);
  }

  void note(const char* what, const std::string& path) {
    if (failure.empty()) failure = fmt::format("cannot {} {}: {}", what, path, std::strerror(errno));
  }

  Filesystem& filesystem_;
  std::map<Ino, std::string> made_;
};

}  // namespace

std::string copy_out(Filesystem& filesystem, const std::string& directory) {
  CopyOut copy(filesystem);
  copy.copy_directory(fusefs::kRootIno, directory);
  return copy.failure;
}

}  // namespace crashcut::mounted
