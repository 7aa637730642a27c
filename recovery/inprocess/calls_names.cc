// Calls on paths that may lead into the model.
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <utime.h>

#include <algorithm>
#include <cstring>

#include "inject/interpose.h"
#include "recovery/inprocess/call_text.h"
#include "recovery/inprocess/calls.h"
#include "recovery/inprocess/user_memory.h"
#include "scheduler/runtime/machine.h"

namespace crashcut::inprocess {

namespace {

fusefs::Process& process() { return *g.model->process; }

using inject::pointer;
const char* path_at(const Call& c, int i) { return pointer<const char>(c.a[i]); }

// The program's own descriptor as a directory, and not ours: the kernel's.
bool is_foreign(long dirfd, const char* path) {
  return static_cast<int>(dirfd) != AT_FDCWD && !g.models_fd(static_cast<int>(dirfd)) && path[0] != '/';
}

// A path that the model followed out of itself: the kernel does the call on what it found. `dirfd` is the index of
// the directory argument, -1 for none.
long go_outside(Call& c, int dirfd, int path) {
  // It would be the placeholder that the kernel has for it.
  if (descriptor_in(path_at(c, path)) >= 0 && c.number != SYS_readlink && c.number != SYS_readlinkat)
    unsupported("a path through /proc/self/fd to a modelled file");
  const std::string& leads_to = process().outside_path();
  if (leads_to == path_at(c, path) && (dirfd < 0 || static_cast<int>(c.a[dirfd]) == AT_FDCWD)) return kForward;
  if (!inject::is_traceless(c)) spend_image();
  Call real = c;
  real.a[path] = reinterpret_cast<long>(leads_to.c_str());
  if (dirfd >= 0) real.a[dirfd] = AT_FDCWD;
  if (inject::schedules_threads() && scheduler::runtime::do_machine_call(real)) return real.result;
  return inject::do_in_kernel(real);
}

// Where the real call takes two paths and both are outside.
long go_outside_twice(Call& c, int from_dirfd, int from, int to_dirfd, int to) {
  spend_image();
  Call real = c;
  real.a[from] = reinterpret_cast<long>(process().outside_from_path().c_str());
  real.a[to] = reinterpret_cast<long>(process().outside_path().c_str());
  if (from_dirfd >= 0) real.a[from_dirfd] = AT_FDCWD;
  if (to_dirfd >= 0) real.a[to_dirfd] = AT_FDCWD;
  return inject::do_in_kernel(real);
}

long open_path(Call& c, int dirfd_index, int path_index, int flags, mode_t mode) {
  const int dirfd = dirfd_index < 0 ? AT_FDCWD : static_cast<int>(c.a[dirfd_index]);
  const char* path = path_at(c, path_index);
  if (is_foreign(dirfd, path)) return kForward;
  const auto text = [&] {
    const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    const std::string mode_text = has_mode ? fmt::format(", {:04o}", mode & 07777) : std::string();
    return fmt::format("open({}, {}{})", path_text(dirfd, path), open_flags_text(flags), mode_text);
  };
  const bool changes =
      (flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_ACCMODE) != O_RDONLY || (flags & O_TMPFILE) == O_TMPFILE;
  changes ? begin_change(text) : begin_look(text);
  const int fd = process().openat(dirfd, path, flags, mode);
  if (fd == fusefs::kOutside) return go_outside(c, dirfd_index, path_index);
  if (fd >= 0) g.model->names[fd] = path;
  return fd;
}

void fill_statx(const struct stat& st, struct statx& out) {
  const auto time_of = [](const timespec& t) {
    return statx_timestamp{t.tv_sec, static_cast<std::uint32_t>(t.tv_nsec), 0};
  };
  std::memset(&out, 0, sizeof out);
  out.stx_mask = STATX_BASIC_STATS;
  out.stx_blksize = static_cast<std::uint32_t>(st.st_blksize);
  out.stx_nlink = static_cast<std::uint32_t>(st.st_nlink);
  out.stx_uid = st.st_uid;
  out.stx_gid = st.st_gid;
  out.stx_mode = static_cast<std::uint16_t>(st.st_mode);
  out.stx_ino = st.st_ino;
  out.stx_size = static_cast<std::uint64_t>(st.st_size);
  out.stx_blocks = static_cast<std::uint64_t>(st.st_blocks);
  out.stx_atime = time_of(st.st_atim);
  out.stx_mtime = time_of(st.st_mtim);
  out.stx_ctime = time_of(st.st_ctim);
  out.stx_rdev_major = major(st.st_rdev);
  out.stx_rdev_minor = minor(st.st_rdev);
  out.stx_dev_major = major(st.st_dev);
  out.stx_dev_minor = minor(st.st_dev);
}

long stat_path(Call& c, int dirfd_index, int path_index, int flags, long out) {
  const int dirfd = dirfd_index < 0 ? AT_FDCWD : static_cast<int>(c.a[dirfd_index]);
  const char* path = path_at(c, path_index);
  begin_look([&] { return fmt::format("stat({})", path[0] == 0 ? fd_text(dirfd) : path_text(dirfd, path)); });
  struct stat st;
  const long result = process().fstatat(dirfd, path, st, flags);
  if (result == fusefs::kOutside) return go_outside(c, dirfd_index, path_index);
  return result == 0 ? give(out, &st, sizeof st) : result;
}

// A call about one path: `look` where it changes nothing.
template <class Do, class Text>
long on_path(Call& c, int dirfd_index, int path_index, bool changes, Text&& text, Do&& call) {
  const int dirfd = dirfd_index < 0 ? AT_FDCWD : static_cast<int>(c.a[dirfd_index]);
  const char* path = path_at(c, path_index);
  if (is_foreign(dirfd, path)) return kForward;
  const auto make = [&] { return text(path_text(dirfd, path)); };
  changes ? begin_change(make) : begin_look(make);
  const long result = call(dirfd, path);
  return result == fusefs::kOutside ? go_outside(c, dirfd_index, path_index) : result;
}

long do_mkdir(Call& c, int d, int p, long mode) {
  return on_path(
      c, d, p, true, [&](const std::string& t) { return fmt::format("mkdir({}, {:04o})", t, mode & 07777); },
      [&](int dirfd, const char* path) { return process().mkdirat(dirfd, path, static_cast<mode_t>(mode)); });
}
long do_mknod(Call& c, int d, int p, long mode, long device) {
  return on_path(
      c, d, p, true, [&](const std::string& t) { return fmt::format("mknod({}, {:06o})", t, mode); },
      [&](int dirfd, const char* path) {
        return process().mknodat(dirfd, path, static_cast<mode_t>(mode), static_cast<dev_t>(device));
      });
}
long do_unlink(Call& c, int d, int p, int flags) {
  return on_path(
      c, d, p, true,
      [&](const std::string& t) { return fmt::format("{}({})", (flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", t); },
      [&](int dirfd, const char* path) { return process().unlinkat(dirfd, path, flags); });
}
long do_readlink(Call& c, int d, int p) {
  if (c.a[p + 2] <= 0) return -EINVAL;
  return on_path(
      c, d, p, false, [&](const std::string& t) { return fmt::format("readlink({})", t); },
      [&](int dirfd, const char* path) -> long {
        char target[PATH_MAX];
        const long length =
            process().readlinkat(dirfd, path, {target, std::min(static_cast<std::size_t>(c.a[p + 2]), sizeof target)});
        const long given = length > 0 ? give(c.a[p + 1], target, static_cast<std::size_t>(length)) : 0;
        return given != 0 ? given : length;
      });
}
// By the real ids, unless AT_EACCESS is there.
long do_access(Call& c, int d, int p, int mask, int flags) {
  const bool is_by_real_ids = (flags & AT_EACCESS) == 0 && g.has_other_real_ids;
  return on_path(
      c, d, p, false, [&](const std::string& t) { return fmt::format("access({})", t); },
      [&](int dirfd, const char* path) {
        if (is_by_real_ids) process().set_credentials(real_credentials());
        const long result = process().faccessat(dirfd, path, mask, flags);
        if (is_by_real_ids) process().set_credentials(own_credentials());
        return result;
      });
}
long do_chmod(Call& c, int d, int p, long mode, int flags) {
  return on_path(
      c, d, p, true, [&](const std::string& t) { return fmt::format("chmod({}, {:04o})", t, mode & 07777); },
      [&](int dirfd, const char* path) { return process().fchmodat(dirfd, path, static_cast<mode_t>(mode), flags); });
}
long do_chown(Call& c, int d, int p, long uid, long gid, int flags) {
  return on_path(
      c, d, p, true,
      [&](const std::string& t) {
        return fmt::format("chown({}, {}, {})", t, static_cast<int>(uid), static_cast<int>(gid));
      },
      [&](int dirfd, const char* path) {
        return process().fchownat(dirfd, path, static_cast<uid_t>(uid), static_cast<gid_t>(gid), flags);
      });
}
long do_utimens(Call& c, int d, int p, const timespec* times, int flags) {
  return on_path(
      c, d, p, true, [&](const std::string& t) { return fmt::format("utimens({})", t); },
      [&](int dirfd, const char* path) { return process().utimensat(dirfd, path, times, flags); });
}
long do_symlink(Call& c, int target, int d, int p) {
  if (long e = check_path(path_at(c, target))) return e;
  const std::string to = path_at(c, target);
  return on_path(
      c, d, p, true, [&](const std::string& t) { return fmt::format("symlink({}, {})", quoted(to, 256), t); },
      [&](int dirfd, const char* path) { return process().symlinkat(to, dirfd, path); });
}

template <class Do>
long on_two_paths(Call& c, int from_d, int from_p, int to_d, int to_p, const char* name, Do&& call) {
  const int from_dirfd = from_d < 0 ? AT_FDCWD : static_cast<int>(c.a[from_d]);
  const int to_dirfd = to_d < 0 ? AT_FDCWD : static_cast<int>(c.a[to_d]);
  const char* from = path_at(c, from_p);
  const char* to = path_at(c, to_p);
  if (long e = check_path(from)) return e;
  if (long e = check_path(to)) return e;
  const bool from_foreign = is_foreign(from_dirfd, from);
  if (from_foreign || is_foreign(to_dirfd, to)) {
    // One of them is the kernel's for certain; the other may be ours, and then they are on two filesystems.
    const bool other_outside =
        from_foreign ? is_foreign(to_dirfd, to) || surely_outside(to_dirfd, to) : surely_outside(from_dirfd, from);
    return other_outside ? kForward : -EXDEV;
  }
  begin_change([&] { return fmt::format("{}({}, {})", name, path_text(from_dirfd, from), path_text(to_dirfd, to)); });
  const long result = call(from_dirfd, from, to_dirfd, to);
  return result == fusefs::kOutside ? go_outside_twice(c, from_d, from_p, to_d, to_p) : result;
}
long do_rename(Call& c, int fd, int fp, int td, int tp, unsigned flags) {
  return on_two_paths(
      c, fd, fp, td, tp,
      flags == 0   ? "rename"
      : flags == 2 ? "rename exchanging"
                   : "rename without replacing",
      [&](int f, const char* from, int t, const char* to) { return process().renameat2(f, from, t, to, flags); });
}
long do_link(Call& c, int fd, int fp, int td, int tp, int flags) {
  // How a file without a name gets one.
  if (long e = check_path(path_at(c, fp))) return e;
  if (long e = check_path(path_at(c, tp))) return e;
  if (const int from = descriptor_in(path_at(c, fp)); from >= 0 && (flags & AT_SYMLINK_FOLLOW) != 0) {
    const int to_dirfd = td < 0 ? AT_FDCWD : static_cast<int>(c.a[td]);
    begin_change([&] {
      return fmt::format("link({}, {})", path_text(AT_FDCWD, path_at(c, fp)), path_text(to_dirfd, path_at(c, tp)));
    });
    const long result = process().linkat(from, "", to_dirfd, path_at(c, tp), AT_EMPTY_PATH);
    return result == fusefs::kOutside ? -EXDEV : result;
  }
  return on_two_paths(c, fd, fp, td, tp, "link", [&](int f, const char* from, int t, const char* to) {
    return process().linkat(f, from, t, to, flags);
  });
}

long give_statfs(const struct statvfs& from, long to) {
  struct statfs out;
  std::memset(&out, 0, sizeof out);
  out.f_type = 0xEF53;  // ext4
  out.f_bsize = static_cast<long>(from.f_bsize);
  out.f_frsize = static_cast<long>(from.f_frsize);
  out.f_blocks = from.f_blocks;
  out.f_bfree = from.f_bfree;
  out.f_bavail = from.f_bavail;
  out.f_files = from.f_files;
  out.f_ffree = from.f_ffree;
  out.f_namelen = static_cast<long>(from.f_namemax);
  return give(to, &out, sizeof out);
}

// Extended attributes: the path variants and the descriptor ones differ in the first argument only.
struct XattrTarget {
  int fd;
  std::string_view path;
  bool follow;
};
enum class XattrBy { kPath, kLink, kFd };
XattrTarget xattr_target(const Call& c, XattrBy by) {
  if (by == XattrBy::kFd) return {static_cast<int>(c.a[0]), {}, true};
  return {AT_FDCWD, path_at(c, 0), by == XattrBy::kPath};
}
long xattr_result(Call& c, XattrBy by, long result) {
  return result == fusefs::kOutside && by != XattrBy::kFd ? go_outside(c, -1, 0) : result;
}
std::string xattr_text(const Call& c, XattrBy by) {
  return by == XattrBy::kFd ? fd_text(static_cast<int>(c.a[0])) : quoted(path_at(c, 0), 256);
}
// An answer of bytes: a size of 0 asks how long it is.
long give_bytes(const std::string& bytes, long buffer, long size) {
  if (size == 0) return static_cast<long>(bytes.size());
  if (static_cast<std::size_t>(size) < bytes.size()) return -ERANGE;
  const long given = give(buffer, bytes.data(), bytes.size());
  return given != 0 ? given : static_cast<long>(bytes.size());
}
long do_setxattr(Call& c, XattrBy by) {
  const XattrTarget t = xattr_target(c, by);
  const auto bytes = static_cast<std::size_t>(c.a[3]);
  if (!is_path(path_at(c, 1))) return -EFAULT;
  if (bytes > XATTR_SIZE_MAX) return -E2BIG;
  if (bytes != 0 && (c.a[2] == 0 || readable_bytes(pointer<const void>(c.a[2]), bytes) != bytes)) return -EFAULT;
  const std::string name = path_at(c, 1);
  begin_change([&] { return fmt::format("setxattr({}, {}, {} bytes)", xattr_text(c, by), name, c.a[3]); });
  return xattr_result(c, by,
                      process().set_xattr(t.fd, t.path, t.follow, name, {pointer<const char>(c.a[2]), bytes},
                                          static_cast<int>(c.a[4])));
}
long do_getxattr(Call& c, XattrBy by) {
  const XattrTarget t = xattr_target(c, by);
  if (!is_path(path_at(c, 1))) return -EFAULT;
  begin_look([&] { return fmt::format("getxattr({}, {})", xattr_text(c, by), path_at(c, 1)); });
  std::string value;
  const long result = process().get_xattr(t.fd, t.path, t.follow, path_at(c, 1), value);
  return result < 0 ? xattr_result(c, by, result) : give_bytes(value, c.a[2], c.a[3]);
}
long do_listxattr(Call& c, XattrBy by) {
  const XattrTarget t = xattr_target(c, by);
  begin_look([&] { return fmt::format("listxattr({})", xattr_text(c, by)); });
  std::string names;
  const long result = process().list_xattr(t.fd, t.path, t.follow, names);
  return result < 0 ? xattr_result(c, by, result) : give_bytes(names, c.a[1], c.a[2]);
}
long do_removexattr(Call& c, XattrBy by) {
  const XattrTarget t = xattr_target(c, by);
  if (!is_path(path_at(c, 1))) return -EFAULT;
  begin_change([&] { return fmt::format("removexattr({}, {})", xattr_text(c, by), path_at(c, 1)); });
  return xattr_result(c, by, process().remove_xattr(t.fd, t.path, t.follow, path_at(c, 1)));
}

}  // namespace

int descriptor_in(const char* path) {
  if (path == nullptr) return -1;
  for (const char* prefix : {"/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"}) {
    const std::size_t length = std::strlen(prefix);
    if (std::strncmp(path, prefix, length) != 0 || path[length] < '0' || path[length] > '9') continue;
    char* end = nullptr;
    const long fd = std::strtol(path + length, &end, 10);
    if ((*end != 0 && *end != '/') || !g.models_fd(static_cast<int>(fd))) return -1;
    return static_cast<int>(fd);
  }
  return -1;
}

bool surely_outside(long dirfd, const char* path) {
  if (!is_path(path)) return true;  // the kernel says what is wrong with it
  if (path[0] != '/') return static_cast<int>(dirfd) != AT_FDCWD && !g.models_fd(static_cast<int>(dirfd));
  if (descriptor_in(path) >= 0) return false;
  const std::size_t root = std::strlen(kModelRoot);
  if (std::strncmp(path, kModelRoot, root) == 0 && (path[root] == '/' || path[root] == 0)) return false;
  return std::strstr(path, "/.") == nullptr && std::strstr(path, "//") == nullptr;
}

long call_open(Call& c) { return open_path(c, -1, 0, static_cast<int>(c.a[1]), static_cast<mode_t>(c.a[2])); }
long call_creat(Call& c) { return open_path(c, -1, 0, O_CREAT | O_WRONLY | O_TRUNC, static_cast<mode_t>(c.a[1])); }
long call_openat(Call& c) { return open_path(c, 0, 1, static_cast<int>(c.a[2]), static_cast<mode_t>(c.a[3])); }
// Unlike open(), it says EINVAL to what it does not know. Source: fs/open.c, build_open_flags().
long call_openat2(Call& c) {
  constexpr std::uint64_t kLargeFile = 0100000;  // O_LARGEFILE as the kernel has it
  constexpr std::uint64_t kKnown = O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK | O_SYNC |
                                   O_ASYNC | O_DIRECT | kLargeFile | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC |
                                   O_PATH | O_TMPFILE;
  const auto* how = pointer<const open_how>(c.a[2]);
  const auto bytes = static_cast<std::size_t>(c.a[3]);
  if (bytes < sizeof *how) return -EINVAL;
  if (bytes > 4096) return -E2BIG;
  if (how == nullptr || readable_bytes(how, bytes) != bytes) return -EFAULT;
  const auto* rest = reinterpret_cast<const char*>(how + 1);
  if (std::any_of(rest, rest + bytes - sizeof *how, [](char byte) { return byte != 0; })) return -E2BIG;
  if ((how->flags & ~kKnown) != 0) return -EINVAL;
  const bool makes = (how->flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) != 0;
  if (makes ? (how->mode & ~std::uint64_t{07777}) != 0 : how->mode != 0) return -EINVAL;
  if (how->resolve != 0) unsupported("openat2() with resolve flags");
  return open_path(c, 0, 1, static_cast<int>(how->flags), static_cast<mode_t>(how->mode));
}

long call_stat(Call& c) { return stat_path(c, -1, 0, 0, c.a[1]); }
long call_lstat(Call& c) { return stat_path(c, -1, 0, AT_SYMLINK_NOFOLLOW, c.a[1]); }
long call_newfstatat(Call& c) { return stat_path(c, 0, 1, static_cast<int>(c.a[3]), c.a[2]); }
long call_statx(Call& c) {
  const int dirfd = static_cast<int>(c.a[0]);
  begin_look([&] { return fmt::format("statx({})", path_text(dirfd, path_at(c, 1))); });
  struct stat st;
  const long result = process().fstatat(dirfd, path_at(c, 1), st, static_cast<int>(c.a[2]));
  if (result == fusefs::kOutside) return go_outside(c, 0, 1);
  if (result != 0) return result;
  struct statx out;
  fill_statx(st, out);
  return give(c.a[4], &out, sizeof out);
}
long call_access(Call& c) { return do_access(c, -1, 0, static_cast<int>(c.a[1]), 0); }
long call_faccessat(Call& c) { return do_access(c, 0, 1, static_cast<int>(c.a[2]), 0); }
long call_faccessat2(Call& c) { return do_access(c, 0, 1, static_cast<int>(c.a[2]), static_cast<int>(c.a[3])); }

long call_truncate(Call& c) {
  return on_path(
      c, -1, 0, true, [&](const std::string& t) { return fmt::format("truncate({}, {})", t, c.a[1]); },
      [&](int, const char* path) { return process().truncate(path, c.a[1]); });
}
long call_mkdir(Call& c) { return do_mkdir(c, -1, 0, c.a[1]); }
long call_mkdirat(Call& c) { return do_mkdir(c, 0, 1, c.a[2]); }
long call_mknod(Call& c) { return do_mknod(c, -1, 0, c.a[1], c.a[2]); }
long call_mknodat(Call& c) { return do_mknod(c, 0, 1, c.a[2], c.a[3]); }
long call_unlink(Call& c) { return do_unlink(c, -1, 0, 0); }
long call_unlinkat(Call& c) { return do_unlink(c, 0, 1, static_cast<int>(c.a[2])); }
long call_rmdir(Call& c) { return do_unlink(c, -1, 0, AT_REMOVEDIR); }
long call_readlink(Call& c) { return do_readlink(c, -1, 0); }
long call_readlinkat(Call& c) { return do_readlink(c, 0, 1); }
long call_symlink(Call& c) { return do_symlink(c, 0, -1, 1); }
long call_symlinkat(Call& c) { return do_symlink(c, 0, 1, 2); }
long call_rename(Call& c) { return do_rename(c, -1, 0, -1, 1, 0); }
long call_renameat(Call& c) { return do_rename(c, 0, 1, 2, 3, 0); }
long call_renameat2(Call& c) { return do_rename(c, 0, 1, 2, 3, static_cast<unsigned>(c.a[4])); }
long call_link(Call& c) { return do_link(c, -1, 0, -1, 1, 0); }
long call_linkat(Call& c) { return do_link(c, 0, 1, 2, 3, static_cast<int>(c.a[4])); }
long call_chmod(Call& c) { return do_chmod(c, -1, 0, c.a[1], 0); }
long call_fchmodat(Call& c) { return do_chmod(c, 0, 1, c.a[2], 0); }
long call_fchmodat2(Call& c) { return do_chmod(c, 0, 1, c.a[2], static_cast<int>(c.a[3])); }
long call_chown(Call& c) { return do_chown(c, -1, 0, c.a[1], c.a[2], 0); }
long call_lchown(Call& c) { return do_chown(c, -1, 0, c.a[1], c.a[2], AT_SYMLINK_NOFOLLOW); }
long call_fchownat(Call& c) { return do_chown(c, 0, 1, c.a[2], c.a[3], static_cast<int>(c.a[4])); }

long call_utimensat(Call& c) {
  if (c.a[1] != 0 ? !is_path(path_at(c, 1)) : !g.models_fd(static_cast<int>(c.a[0]))) return kForward;
  timespec given[2];
  if (c.a[2] != 0)
    if (long e = take(given, c.a[2], sizeof given)) return e;
  const timespec* times = c.a[2] != 0 ? given : nullptr;
  if (c.a[1] != 0) return do_utimens(c, 0, 1, times, static_cast<int>(c.a[3]));
  // futimens: no path at all.
  begin_change([&] { return fmt::format("futimens({})", fd_text(static_cast<int>(c.a[0]))); });
  return process().utimensat(static_cast<int>(c.a[0]), "", times, AT_EMPTY_PATH);
}
static long utimes_at(Call& c, int d, int p, long address) {
  if (address == 0) return do_utimens(c, d, p, nullptr, 0);
  timeval given[2];
  if (long e = take(given, address, sizeof given)) return e;
  timespec times[2];
  for (int i = 0; i < 2; ++i) times[i] = {given[i].tv_sec, given[i].tv_usec * 1000};
  return do_utimens(c, d, p, times, 0);
}
long call_utimes(Call& c) { return utimes_at(c, -1, 0, c.a[1]); }
long call_futimesat(Call& c) { return utimes_at(c, 0, 1, c.a[2]); }
long call_utime(Call& c) {
  if (c.a[1] == 0) return do_utimens(c, -1, 0, nullptr, 0);
  utimbuf given;
  if (long e = take(&given, c.a[1], sizeof given)) return e;
  const timespec times[2] = {{given.actime, 0}, {given.modtime, 0}};
  return do_utimens(c, -1, 0, times, 0);
}

long call_getcwd(Call& c) {
  const std::string cwd = process().getcwd();
  if (cwd.empty()) return kForward;
  if (cwd.front() != '/') return -ENOENT;
  if (static_cast<std::size_t>(c.a[1]) < cwd.size() + 1) return -ERANGE;
  const long given = give(c.a[0], cwd.c_str(), cwd.size() + 1);
  return given != 0 ? given : static_cast<long>(cwd.size() + 1);
}
long call_chdir(Call& c) {
  const char* path = path_at(c, 0);
  if (!is_path(path)) return kForward;
  begin_look([&] { return fmt::format("chdir({})", quoted(path, 256)); });
  const long result = process().chdir(path);
  if (result != fusefs::kOutside) return result;
  spend_image();
  const long moved = kernel(SYS_chdir, process().outside_path().c_str());
  if (moved == 0) process().chdir_outside();
  return moved;
}
long call_fchdir(Call& c) {
  if (g.models_fd(static_cast<int>(c.a[0]))) return process().fchdir(static_cast<int>(c.a[0]));
  spend_image();
  const long moved = kernel(SYS_fchdir, c.a[0]);
  if (moved == 0) process().chdir_outside();
  return moved;
}
// The kernel's part is done here: the model's users are those that the kernel then says.
long call_set_ids(Call& c) {
  spend_image();
  const long result = inject::do_in_kernel(c);
  if (result != 0) return result;
  // With other ids the kernel forgets what is to become of us when crashcut dies.
  kernel(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  process().set_credentials(own_credentials());
  return 0;
}

// Both have one: files outside are created by the kernel.
long call_umask(Call& c) {
  process().set_umask(static_cast<mode_t>(c.a[0] & 0777));
  return kForward;
}

// A socket with a name in the model: it would be made, or looked for, in the real directory.
long call_socket_name(Call& c) {
  sockaddr_un name{};
  const std::size_t bytes = std::min(static_cast<std::size_t>(c.a[2]), sizeof name);
  if (bytes <= offsetof(sockaddr_un, sun_path) || take(&name, c.a[1], bytes) != 0 || name.sun_family != AF_UNIX ||
      name.sun_path[0] == 0)
    return kForward;
  const std::string path(name.sun_path, strnlen(name.sun_path, sizeof name.sun_path));
  struct stat st;
  if (surely_outside(AT_FDCWD, path.c_str()) || process().fstatat(AT_FDCWD, path, st, 0) == fusefs::kOutside)
    return kForward;
  unsupported(c.number == SYS_bind ? "bind() of a socket to a modelled path"
                                   : "connect() to a socket at a modelled path");
}

long call_statfs(Call& c) {
  struct statvfs found;
  const long result = process().statfs(path_at(c, 0), found);
  if (result == fusefs::kOutside) return go_outside(c, -1, 0);
  return result == 0 ? give_statfs(found, c.a[1]) : result;
}
long call_fstatfs(Call& c) {
  struct statvfs found;
  const long result = process().fstatfs(static_cast<int>(c.a[0]), found);
  return result == 0 ? give_statfs(found, c.a[1]) : result;
}

long call_setxattr(Call& c) { return do_setxattr(c, XattrBy::kPath); }
long call_lsetxattr(Call& c) { return do_setxattr(c, XattrBy::kLink); }
long call_fsetxattr(Call& c) { return do_setxattr(c, XattrBy::kFd); }
long call_getxattr(Call& c) { return do_getxattr(c, XattrBy::kPath); }
long call_lgetxattr(Call& c) { return do_getxattr(c, XattrBy::kLink); }
long call_fgetxattr(Call& c) { return do_getxattr(c, XattrBy::kFd); }
long call_listxattr(Call& c) { return do_listxattr(c, XattrBy::kPath); }
long call_llistxattr(Call& c) { return do_listxattr(c, XattrBy::kLink); }
long call_flistxattr(Call& c) { return do_listxattr(c, XattrBy::kFd); }
long call_removexattr(Call& c) { return do_removexattr(c, XattrBy::kPath); }
long call_lremovexattr(Call& c) { return do_removexattr(c, XattrBy::kLink); }
long call_fremovexattr(Call& c) { return do_removexattr(c, XattrBy::kFd); }

}  // namespace crashcut::inprocess
