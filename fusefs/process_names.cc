// What a process does to names and to what inodes hold besides data.
#include <linux/fs.h>
#include <linux/limits.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "fusefs/process_impl.h"

namespace crashcut::fusefs {
namespace {

constexpr int kStatFlags =
    AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC;
constexpr int kAccessFlags = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_EACCESS;
constexpr int kChangeFlags = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
constexpr unsigned kRenameFlags = RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT;

bool is_unchanged(uid_t id) { return id == static_cast<uid_t>(-1); }

}  // namespace

// Attributes.

int Process::fstat(int fd, struct stat& out) {
  DescriptionRef file = impl_->any(fd);
  return file ? impl_->filesystem.getattr(file->ino, out) : -EBADF;
}

int Process::fstatat(int dirfd, std::string_view path, struct stat& out, int flags) {
  if (flags & ~kStatFlags) return -EINVAL;
  Ino ino = kNoIno;
  if (Errno error = impl_->find(dirfd, path, flags, ino)) return error;
  return impl_->filesystem.getattr(ino, out);
}

int Process::faccessat(int dirfd, std::string_view path, int mask, int flags) {
  if ((mask & ~(R_OK | W_OK | X_OK)) || (flags & ~kAccessFlags)) return -EINVAL;
  Ino ino = kNoIno;
  if (Errno error = impl_->find(dirfd, path, flags, ino)) return error;
  return impl_->access.check(ino, mask);
}

Errno Process::Impl::change_mode(Ino ino, mode_t mode) {
  mode &= 07777;
  if (Errno error = access.check_owner(ino)) return error;
  if (!access.is_root() && (mode & S_ISGID)) {
    Owner now;
    if (Errno error = filesystem.get_owner(ino, now)) return error;
    if (!access.in_group(now.gid)) mode &= ~mode_t{S_ISGID};
  }
  return filesystem.setattr(ino, {.mode = mode});
}

int Process::fchmod(int fd, mode_t mode) {
  DescriptionRef file = impl_->file(fd);
  return file ? impl_->change_mode(file->ino, mode) : -EBADF;
}

int Process::fchmodat(int dirfd, std::string_view path, mode_t mode, int flags) {
  if (flags & ~kChangeFlags) return -EINVAL;
  Ino ino = kNoIno;
  if (Errno error = impl_->find(dirfd, path, flags, ino)) return error;
  if (S_ISLNK(impl_->filesystem.type(ino))) return -EOPNOTSUPP;
  return impl_->change_mode(ino, mode);
}

Errno Process::Impl::change_owner(Ino ino, uid_t uid, gid_t gid) {
  AttrChange change;
  if (!is_unchanged(uid)) change.uid = uid;
  if (!is_unchanged(gid)) change.gid = gid;
  bool keeps_privileges = S_ISDIR(filesystem.type(ino));
  if (access.is_root() && keeps_privileges) return filesystem.setattr(ino, change);
  Owner now;
  if (Errno error = filesystem.get_owner(ino, now)) return error;
  if (Errno error = access.may_chown(now, uid, gid)) return error;
  mode_t lost = keeps_privileges ? 0 : access.lost_privileges(now);
  if (lost) {
    // That is a chmod too, even where the owner stays.
    if (Errno error = access.check_owner(ino)) return error;
    change.mode = now.mode & 07777 & ~lost;
  }
  return filesystem.setattr(ino, change);
}

int Process::fchown(int fd, uid_t uid, gid_t gid) {
  DescriptionRef file = impl_->file(fd);
  return file ? impl_->change_owner(file->ino, uid, gid) : -EBADF;
}

int Process::fchownat(int dirfd, std::string_view path, uid_t uid, gid_t gid, int flags) {
  if (flags & ~kChangeFlags) return -EINVAL;
  Ino ino = kNoIno;
  if (Errno error = impl_->find(dirfd, path, flags, ino)) return error;
  return impl_->change_owner(ino, uid, gid);
}

namespace {

bool is_valid_time(const timespec& time) {
  return time.tv_nsec == UTIME_NOW || time.tv_nsec == UTIME_OMIT || (time.tv_nsec >= 0 && time.tv_nsec < 1'000'000'000);
}

bool both_are(const timespec times[2], long what) { return times[0].tv_nsec == what && times[1].tv_nsec == what; }

}  // namespace

int Process::utimensat(int dirfd, std::string_view path, const timespec times[2], int flags) {
  constexpr timespec kBothNow[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
  if (times == nullptr) times = kBothNow;
  if (both_are(times, UTIME_OMIT)) return 0;
  if (flags & ~kChangeFlags) return -EINVAL;
  Ino ino = kNoIno;
  if (Errno error = impl_->find(dirfd, path, flags, ino)) return error;
  if (!is_valid_time(times[0]) || !is_valid_time(times[1])) return -EINVAL;
  if (Errno error = impl_->access.check_owner(ino)) {
    // Whoever may write may touch.
    if (!both_are(times, UTIME_NOW)) return error;
    if (Errno denied = impl_->access.check(ino, W_OK)) return denied;
  }
  AttrChange change;
  if (times[0].tv_nsec != UTIME_OMIT) change.atime = times[0];
  if (times[1].tv_nsec != UTIME_OMIT) change.mtime = times[1];
  return impl_->filesystem.setattr(ino, change);
}

int Process::statfs(std::string_view path, struct statvfs& out) {
  Ino ino = kNoIno;
  if (Errno error = impl_->find(AT_FDCWD, path, 0, ino)) return error;
  impl_->filesystem.statfs(out);
  return 0;
}

int Process::fstatfs(int fd, struct statvfs& out) {
  if (!owns(fd)) return -EBADF;
  impl_->filesystem.statfs(out);
  return 0;
}

// New names.

Errno Process::Impl::find_new_name(int dirfd, std::string_view path, bool for_directory, Place& out) {
  if (Errno error = find_parent(dirfd, path, out)) return error;
  if (Errno error = check_new_name(out, for_directory)) return error;
  return access.may_create(out.dir);
}

// filename_create(): an existing name is EEXIST before anything about permissions.
Errno Process::Impl::check_new_name(const Place& place, bool for_directory) {
  if (place.last != LastComponent::kName) return -EEXIST;
  Ino found = kNoIno;
  Errno error = filesystem.lookup(place.dir, place.name, found);
  if (error != -ENOENT) return error == 0 ? -EEXIST : error;
  return place.slash && !for_directory ? -ENOENT : 0;
}

int Process::mkdirat(int dirfd, std::string_view path, mode_t mode) {
  Place place;
  if (Errno error = impl_->find_new_name(dirfd, path, true, place)) return error;
  impl_->touch_effect(Effects::Thing::kUmask, Effects::kTarget);
  mode = mode & 01777 & ~impl_->setup.umask;
  return impl_->filesystem.mkdir(place.dir, place.name, mode, impl_->access.who(), place.ino);
}

namespace {

Errno check_node_type(mode_t type) {
  switch (type) {
    case S_IFREG:
    case S_IFCHR:
    case S_IFBLK:
    case S_IFIFO:
    case S_IFSOCK:
      return 0;
    case S_IFDIR:
      return -EPERM;
    default:
      return -EINVAL;
  }
}

}  // namespace

int Process::mknodat(int dirfd, std::string_view path, mode_t mode, dev_t rdev) {
  mode_t type = mode & S_IFMT ? mode & S_IFMT : S_IFREG;
  if (Errno error = check_node_type(type)) return error;
  Place place;
  if (Errno error = impl_->find_new_name(dirfd, path, false, place)) return error;
  bool is_device = S_ISBLK(type) || (S_ISCHR(type) && rdev != 0);  // 0,0 is overlayfs's whiteout: anyone's
  if (is_device && !impl_->access.is_root()) return -EPERM;
  impl_->touch_effect(Effects::Thing::kUmask, Effects::kTarget);
  mode = type | (mode & 07777 & ~impl_->setup.umask);
  if (Errno error = impl_->access.strip_setgid(place.dir, mode)) return error;
  dev_t kept_rdev = S_ISBLK(type) || S_ISCHR(type) ? rdev : 0;
  return impl_->filesystem.create(place.dir, place.name, mode, kept_rdev, impl_->access.who(), place.ino);
}

int Process::symlinkat(std::string_view target, int dirfd, std::string_view path) {
  if (target.empty()) return -ENOENT;
  if (target.size() >= PATH_MAX) return -ENAMETOOLONG;
  Place place;
  if (Errno error = impl_->find_new_name(dirfd, path, false, place)) return error;
  return impl_->filesystem.symlink(place.dir, place.name, target, impl_->access.who(), place.ino);
}

int Process::readlinkat(int dirfd, std::string_view path, std::span<char> out) {
  if (out.empty()) return -EINVAL;
  Ino ino = kNoIno;
  if (Errno error = impl_->find(dirfd, path, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH, ino)) return error;
  if (!S_ISLNK(impl_->filesystem.type(ino))) return path.empty() ? -ENOENT : -EINVAL;
  std::string target;
  if (Errno error = impl_->filesystem.readlink(ino, target)) return error;
  std::size_t count = std::min(target.size(), out.size());
  std::memcpy(out.data(), target.data(), count);
  return static_cast<int>(count);
}

// Two paths.

Errno Process::Impl::join_outcomes(Errno from, const std::function<Errno()>& resolve_to) {
  if (from != 0 && from != kOutside) return from;
  if (from == kOutside) outside_from = walk.outside();
  Errno to = resolve_to();
  if (to != 0 && to != kOutside) return to;
  return from == to ? from : -EXDEV;
}

// A file that lost its last name does not get another, and one of O_TMPFILE gets its first once (I_LINKABLE).
Errno Process::Impl::check_nameless(Description& file) {
  if (S_ISDIR(file.type)) return 0;  // refused for that
  if (std::exchange(file.is_linkable, false)) return 0;
  struct stat now;
  if (Errno error = filesystem.getattr(file.ino, now)) return error;
  return now.st_nlink == 0 ? -ENOENT : 0;
}

int Process::linkat(int from_dirfd, std::string_view from, int to_dirfd, std::string_view to, int flags) {
  if (flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) return -EINVAL;
  int from_flags = (flags & AT_EMPTY_PATH) | (flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW);
  Ino ino = kNoIno;
  Place place;
  Errno found = impl_->find(from_dirfd, from, from_flags, ino);
  Errno error = impl_->join_outcomes(found, [&] { return impl_->find_parent(to_dirfd, to, place); });
  if (error) return error;
  if ((error = impl_->check_new_name(place, false))) return error;
  if ((error = impl_->access.may_link(ino))) return error;
  if ((error = impl_->access.may_create(place.dir))) return error;
  if (DescriptionRef file = from.empty() ? impl_->any(from_dirfd) : nullptr)
    if ((error = impl_->check_nameless(*file))) return error;
  return impl_->filesystem.link(ino, place.dir, place.name);
}

namespace {

// What do_renameat2() and vfs_rename() ask before the filesystem gets to see a rename.
class RenameCheck {
 public:
  RenameCheck(Filesystem& filesystem, const Access& access, const Place& from, const Place& to, unsigned flags)
      : filesystem_(filesystem), access_(access), from_(from), to_(to), exchanges_(flags & RENAME_EXCHANGE) {
    replaces_ = !(flags & RENAME_NOREPLACE);
  }

  Errno run() {
    if (from_.last != LastComponent::kName) return -EBUSY;
    if (to_.last != LastComponent::kName) return replaces_ ? -EBUSY : -EEXIST;
    if (Errno error = filesystem_.lookup(from_.dir, from_.name, moved_)) return error;
    Errno error = filesystem_.lookup(to_.dir, to_.name, replaced_);
    if (error && error != -ENOENT) return error;
    if (error) replaced_ = kNoIno;
    if (replaced_ != kNoIno && !replaces_) return -EEXIST;
    if (replaced_ == kNoIno && exchanges_) return -ENOENT;
    if ((error = check_slashes())) return error;
    return check_permissions();
  }

  // After run(): what lay under the names, kNoIno where nothing did.
  Ino moved() const { return moved_; }
  Ino replaced() const { return replaced_; }

 private:
  bool is_directory(Ino ino) { return S_ISDIR(filesystem_.type(ino)); }

  // Trailing slashes are for directories only.
  Errno check_slashes() {
    if (exchanges_ && to_.slash && !is_directory(replaced_)) return -ENOTDIR;
    bool counts = from_.slash || (to_.slash && !exchanges_);
    return counts && !is_directory(moved_) ? -ENOTDIR : 0;
  }

  // The filesystem checks shapes and types itself; here they come in between because errors have an order.
  Errno check_permissions() {
    if (access_.is_root()) return 0;
    if (is_above(moved_, to_.dir)) return -EINVAL;
    if (replaced_ != kNoIno && is_above(replaced_, from_.dir)) return exchanges_ ? -EINVAL : -ENOTEMPTY;
    if (moved_ == replaced_) return 0;
    if (Errno error = access_.may_delete(from_.dir, moved_)) return error;
    if (Errno error = check_target()) return error;
    if (from_.dir == to_.dir) return 0;
    // A directory that gets another parent changes its "..".
    if (is_directory(moved_))
      if (Errno error = access_.check(moved_, W_OK)) return error;
    return exchanges_ && is_directory(replaced_) ? access_.check(replaced_, W_OK) : 0;
  }

  Errno check_target() {
    if (replaced_ == kNoIno) return access_.may_create(to_.dir);
    if (Errno error = access_.may_delete(to_.dir, replaced_)) return error;
    if (exchanges_ || is_directory(moved_) == is_directory(replaced_)) return 0;
    return is_directory(moved_) ? -ENOTDIR : -EISDIR;
  }

  bool is_above(Ino ancestor, Ino dir) {
    while (dir != ancestor && dir != kRootIno)
      if (filesystem_.lookup(dir, "..", dir)) return false;
    return dir == ancestor;
  }

  Filesystem& filesystem_;
  const Access& access_;
  const Place& from_;
  const Place& to_;
  bool exchanges_;
  bool replaces_;
  Ino moved_ = kNoIno;
  Ino replaced_ = kNoIno;
};

}  // namespace

int Process::renameat2(int from_dirfd, std::string_view from, int to_dirfd, std::string_view to, unsigned flags) {
  bool contradicts = (flags & RENAME_EXCHANGE) && (flags & (RENAME_NOREPLACE | RENAME_WHITEOUT));
  if ((flags & ~kRenameFlags) || contradicts) return -EINVAL;
  Place source;
  Place target;
  Errno found = impl_->find_parent(from_dirfd, from, source);
  Errno error = impl_->join_outcomes(found, [&] { return impl_->find_parent(to_dirfd, to, target); });
  if (error) return error;
  RenameCheck check(impl_->filesystem, impl_->access, source, target, flags);
  if ((error = check.run())) return error;
  error = impl_->filesystem.rename(source.dir, source.name, target.dir, target.name, flags);
  if (error) return error;
  if (flags & RENAME_EXCHANGE) impl_->walk.note(source, check.replaced());
  impl_->walk.note(target, check.moved());
  return 0;
}

// Removed names.

namespace {

Errno check_rmdir_place(const Place& place) {
  switch (place.last) {
    case LastComponent::kName:
      return 0;
    case LastComponent::kDot:
      return -EINVAL;
    case LastComponent::kDotDot:
      return -ENOTEMPTY;
    case LastComponent::kRoot:
      return -EBUSY;
  }
  return 0;
}

}  // namespace

int Process::unlinkat(int dirfd, std::string_view path, int flags) {
  if (flags & ~AT_REMOVEDIR) return -EINVAL;
  bool removes_directory = flags & AT_REMOVEDIR;
  Filesystem& filesystem = impl_->filesystem;
  Place place;
  if (Errno error = impl_->find_parent(dirfd, path, place)) return error;
  if (!removes_directory && place.last != LastComponent::kName) return -EISDIR;
  if (Errno error = check_rmdir_place(place)) return error;
  Ino victim = kNoIno;
  if (Errno error = filesystem.lookup(place.dir, place.name, victim)) return error;
  bool is_directory = S_ISDIR(filesystem.type(victim));
  if (!removes_directory && place.slash) return is_directory ? -EISDIR : -ENOTDIR;
  if (Errno error = impl_->access.may_delete(place.dir, victim)) return error;
  if (removes_directory) return filesystem.rmdir(place.dir, place.name);
  return is_directory ? -EISDIR : filesystem.unlink(place.dir, place.name);
}

// Extended attributes.

Errno Process::Impl::find_for_xattr(int fd, std::string_view path, bool follow, Ino& out) {
  if (!path.empty()) return find(AT_FDCWD, path, follow ? 0 : AT_SYMLINK_NOFOLLOW, out);
  DescriptionRef description = file(fd);
  if (!description) return -EBADF;
  out = description->ino;
  return 0;
}

namespace {

bool has_prefix(std::string_view name, std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; }

// The namespaces that ext4 has handlers for; POSIX ACLs ("system.") are not modelled.
Errno check_xattr_namespace(std::string_view name) {
  for (std::string_view prefix : {"user.", "trusted.", "security."})
    if (has_prefix(name, prefix)) return name.size() == prefix.size() ? -EINVAL : 0;
  return -EOPNOTSUPP;
}

Errno check_xattr_name(const std::string& name) { return name.empty() || name.size() > XATTR_NAME_MAX ? -ERANGE : 0; }

}  // namespace

// xattr_permission(), then the namespace.
Errno Process::Impl::check_xattr(Ino ino, const std::string& name, bool for_change) {
  Errno refused = for_change ? -EPERM : -ENODATA;
  if (has_prefix(name, "trusted.") && !access.is_root()) return refused;
  mode_t type = filesystem.type(ino);
  bool is_user = has_prefix(name, "user.");
  if (is_user && !S_ISREG(type) && !S_ISDIR(type)) return refused;
  if (is_user && S_ISDIR(type) && for_change && !access.is_root()) {
    Owner now;
    if (Errno error = filesystem.get_owner(ino, now)) return error;
    if ((now.mode & S_ISVTX) && now.uid != access.who().uid) return -EPERM;
  }
  bool is_security = has_prefix(name, "security.");
  if (is_security && for_change && !access.is_root()) return -EPERM;
  if (!is_security && !has_prefix(name, "trusted."))
    if (Errno error = access.check(ino, for_change ? W_OK : R_OK)) return error;
  return check_xattr_namespace(name);
}

int Process::set_xattr(int fd, std::string_view path, bool follow, const std::string& name, std::string_view value,
                       int flags) {
  if (flags & ~(XATTR_CREATE | XATTR_REPLACE)) return -EINVAL;
  if (Errno error = check_xattr_name(name)) return error;
  if (value.size() > XATTR_SIZE_MAX) return -E2BIG;
  Ino ino = kNoIno;
  if (Errno error = impl_->find_for_xattr(fd, path, follow, ino)) return error;
  if (Errno error = impl_->check_xattr(ino, name, true)) return error;
  return impl_->filesystem.set_xattr(ino, name, value, flags);
}

int Process::get_xattr(int fd, std::string_view path, bool follow, const std::string& name, std::string& value) {
  if (Errno error = check_xattr_name(name)) return error;
  Ino ino = kNoIno;
  if (Errno error = impl_->find_for_xattr(fd, path, follow, ino)) return error;
  if (Errno error = impl_->check_xattr(ino, name, false)) return error;
  return impl_->filesystem.get_xattr(ino, name, value);
}

int Process::list_xattr(int fd, std::string_view path, bool follow, std::string& names) {
  Ino ino = kNoIno;
  if (Errno error = impl_->find_for_xattr(fd, path, follow, ino)) return error;
  std::vector<std::string> all;
  if (Errno error = impl_->filesystem.list_xattr(ino, all)) return error;
  names.clear();
  for (const std::string& name : all) {
    bool is_hidden = has_prefix(name, "trusted.") && !impl_->access.is_root();
    if (!is_hidden) names.append(name).push_back('\0');
  }
  return 0;
}

int Process::remove_xattr(int fd, std::string_view path, bool follow, const std::string& name) {
  if (Errno error = check_xattr_name(name)) return error;
  Ino ino = kNoIno;
  if (Errno error = impl_->find_for_xattr(fd, path, follow, ino)) return error;
  if (Errno error = impl_->check_xattr(ino, name, true)) return error;
  return impl_->filesystem.remove_xattr(ino, name);
}

}  // namespace crashcut::fusefs
