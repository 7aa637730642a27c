// --from DIR: a real directory becomes the starting state of the model.
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "inject/gate.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

namespace {

struct DirectoryRecord {  // linux_dirent64
  std::uint64_t ino;
  std::int64_t offset;
  unsigned short length;
  unsigned char type;
  char name[];
};

class TreeCopy {
 public:
  void copy_directory(const std::string& from, const std::string& to) {
    const long fd = kernel(SYS_open, from.c_str(), O_RDONLY | O_DIRECTORY);
    if (fd < 0) fail("open", from, fd);
    std::vector<char> buffer(32 * 1024);
    while (true) {
      const long got = kernel(SYS_getdents64, fd, buffer.data(), buffer.size());
      if (got < 0) fail("read", from, got);
      if (got == 0) break;
      for (long at = 0; at < got;) {
        const auto* record = reinterpret_cast<const DirectoryRecord*>(buffer.data() + at);
        at += record->length;
        const std::string name = record->name;
        if (name != "." && name != "..") copy_entry(from + "/" + name, to + "/" + name);
      }
    }
    kernel(SYS_close, fd);
  }

 private:
  void copy_entry(const std::string& from, const std::string& to) {
    struct stat st;
    if (long error = kernel(SYS_lstat, from.c_str(), &st)) fail("stat", from, error);
    fusefs::Process& process = *g.model->process;
    if (!S_ISDIR(st.st_mode) && st.st_nlink > 1) {
      const auto [first, is_new] = made_.emplace(std::pair(st.st_dev, st.st_ino), to);
      if (!is_new) {
        if (const long error = process.linkat(AT_FDCWD, first->second, AT_FDCWD, to, 0); error < 0)
          fail("link", from, error);
        return;
      }
    }
    long made = 0;
    if (S_ISDIR(st.st_mode)) {
      made = process.mkdirat(AT_FDCWD, to, 0700);
      if (made == 0) copy_directory(from, to);
    } else if (S_ISREG(st.st_mode)) {
      made = copy_file(from, to);
    } else if (S_ISLNK(st.st_mode)) {
      std::string target(static_cast<std::size_t>(st.st_size) + 1, '\0');
      const long length = kernel(SYS_readlink, from.c_str(), target.data(), target.size());
      if (length < 0) fail("readlink", from, length);
      target.resize(static_cast<std::size_t>(length));
      made = process.symlinkat(target, AT_FDCWD, to);
    } else {
      user_error(fmt::format("--from: {} is neither a file, a directory nor a symbolic link", from));
    }
    if (made < 0) fail("copy", from, made);
    // Where that is not permitted here, it is not on a disk of the program's either.
    process.fchownat(AT_FDCWD, to, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW);
    if (!S_ISLNK(st.st_mode)) process.fchmodat(AT_FDCWD, to, st.st_mode & 07777, 0);
    copy_xattrs(from, to);
    const timespec times[2] = {st.st_atim, st.st_mtim};
    process.utimensat(AT_FDCWD, to, times, AT_SYMLINK_NOFOLLOW);
  }

  long copy_file(const std::string& from, const std::string& to) {
    const long in = kernel(SYS_open, from.c_str(), O_RDONLY);
    if (in < 0) fail("open", from, in);
    fusefs::Process& process = *g.model->process;
    const int out = process.openat(AT_FDCWD, to, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (out < 0) return out;
    std::vector<char> buffer(1 << 20);
    // Holes stay holes; where the real filesystem knows of none, everything is data.
    const long size = kernel(SYS_lseek, in, 0, SEEK_END);
    for (long at = 0; at < size;) {
      const long data = kernel(SYS_lseek, in, at, SEEK_DATA);
      if (data == -ENXIO) break;
      long hole = kernel(SYS_lseek, in, data < 0 ? at : data, SEEK_HOLE);
      if (data < 0 || hole < 0) hole = size;
      for (at = data < 0 ? at : data; at < hole;) {
        const long got =
            kernel(SYS_pread64, in, buffer.data(), std::min<long>(hole - at, static_cast<long>(buffer.size())), at);
        if (got < 0) fail("read", from, got);
        if (got == 0) break;
        const iovec part{buffer.data(), static_cast<std::size_t>(got)};
        const std::int64_t put = process.pwrite(out, {&part, 1}, at, 0);
        if (put < 0) fail("copy", from, put);
        at += got;
      }
      at = std::max(at, hole);
    }
    if (const long error = process.ftruncate(out, size); error < 0) fail("copy", from, error);
    process.close(out);
    kernel(SYS_close, in);
    return 0;
  }

  void copy_xattrs(const std::string& from, const std::string& to) {
    std::vector<char> names(64 * 1024), value(64 * 1024);
    const long length = kernel(SYS_llistxattr, from.c_str(), names.data(), names.size());
    for (long at = 0; at < length; at += static_cast<long>(std::strlen(names.data() + at)) + 1) {
      const long bytes = kernel(SYS_lgetxattr, from.c_str(), names.data() + at, value.data(), value.size());
      // Of those that a disk may not have, a security label say, the disk knows nothing.
      if (bytes >= 0)
        g.model->process->set_xattr(AT_FDCWD, to.c_str(), false, names.data() + at,
                                    {value.data(), static_cast<std::size_t>(bytes)}, 0);
    }
  }

  std::map<std::pair<dev_t, ino_t>, std::string> made_;  // files of several names

  [[noreturn]] void fail(const char* what, const std::string& path, long error) {
    user_error(fmt::format("--from: cannot {} {}: {}", what, path, std::strerror(static_cast<int>(-error))));
  }
};

}  // namespace

void copy_tree_in(const char* directory) { TreeCopy().copy_directory(directory, kModelRoot); }

}  // namespace crashcut::inprocess
