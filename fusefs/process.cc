// The process itself: its descriptors, open, the working directory, locks.
#include "fusefs/process.h"

#include <sys/file.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "fusefs/process_impl.h"

namespace crashcut::fusefs {
namespace {

constexpr int kFirstFd = 3;
constexpr int kLargeFile = 0100000;  // what the kernel calls O_LARGEFILE; the C library's is 0
constexpr int kPathFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int kForgottenFlags = O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC;
constexpr int kKnownFlags = O_ACCMODE | kForgottenFlags | O_APPEND | O_NONBLOCK | O_SYNC | O_ASYNC | O_DIRECT |
                            O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_PATH | O_TMPFILE | kLargeFile;
constexpr int kSettableFlags = O_APPEND | O_DIRECT | O_NOATIME | O_NONBLOCK;

bool asks_for_tmpfile(int flags) { return (flags & O_TMPFILE) == O_TMPFILE; }

// What the kernel makes of openat's flags before it looks at them.
int clean_open_flags(int flags) { return flags & O_PATH ? flags & kPathFlags : (flags & kKnownFlags) | kLargeFile; }

int access_mask(int flags) {
  constexpr int kMasks[] = {R_OK, W_OK, R_OK | W_OK, R_OK | W_OK};
  return kMasks[flags & O_ACCMODE] | (flags & O_TRUNC ? W_OK : 0);
}

Errno check_open_flags(int flags) {
  constexpr int kTmpfileBit = O_TMPFILE & ~O_DIRECTORY;
  if ((flags & O_CREAT) && (flags & O_DIRECTORY)) return -EINVAL;
  if (!(flags & kTmpfileBit)) return 0;
  bool writes = access_mask(flags & O_ACCMODE) & W_OK;
  return asks_for_tmpfile(flags) && !(flags & O_CREAT) && writes ? 0 : -EINVAL;
}

PathWalk::Mode walk_mode(int flags) {
  bool exclusive = (flags & O_CREAT) && (flags & O_EXCL);
  return {.follow = !(flags & O_NOFOLLOW) && !exclusive, .create = (flags & O_CREAT) != 0};
}

}  // namespace

Description::Description(Filesystem& filesystem, Ino ino_in, int flags_in, Effects* effects)
    : name(effects ? effects->fresh_name() : 0),
      ino(ino_in),
      type(filesystem.type(ino_in) & S_IFMT),
      flags(flags_in),
      filesystem_(filesystem),
      effects_(effects) {
  filesystem_.add_open(ino);
}

Description::~Description() {
  if (!is_path_only()) filesystem_.drop_locks(ino, lock_owner());
  filesystem_.release(ino, is_writable());
}

// Access mode 3 (for ioctls) neither reads nor writes.
bool Description::is_readable() const {
  int mode = flags & O_ACCMODE;
  return !is_path_only() && (mode == O_RDONLY || mode == O_RDWR);
}

bool Description::is_writable() const {
  int mode = flags & O_ACCMODE;
  return !is_path_only() && (mode == O_WRONLY || mode == O_RDWR);
}

Process::Impl::Impl(Setup setup_in)
    : setup(std::move(setup_in)),
      filesystem(setup.filesystem),
      access(filesystem, setup.who, setup.sticky_protection),
      walk(filesystem, access, setup.root) {
  if (setup.starts_inside) cwd = open_description(kRootIno, O_PATH);
}

Process::Process(Setup setup) : impl_(std::make_unique<Impl>(std::move(setup))) {}

// As exit does.
Process::~Process() {
  for (int fd : descriptors()) close(fd);
}

const std::string& Process::outside_path() const { return impl_->walk.outside(); }
const std::string& Process::outside_from_path() const { return impl_->outside_from; }

// Descriptors.

DescriptionRef Process::Impl::any(int fd) const {
  touch_effect(Effects::Thing::kDescriptor, Effects::kTarget, static_cast<std::uint64_t>(fd));
  auto slot = slots.find(fd);
  if (slot != slots.end()) slot->second.file->touch(Effects::kTarget);  // its flags
  return slot == slots.end() ? nullptr : slot->second.file;
}

DescriptionRef Process::Impl::file(int fd) const {
  DescriptionRef found = any(fd);
  return found && found->is_path_only() ? nullptr : found;
}

int Process::Impl::reserve(int lowest) {
  if (setup.reserve_fd) return setup.reserve_fd(lowest);
  int fd = std::max(lowest, kFirstFd);
  for (auto slot = slots.lower_bound(fd); slot != slots.end() && slot->first == fd; ++slot) ++fd;
  return fd;
}

void Process::Impl::unreserve(int fd) {
  if (setup.free_fd) setup.free_fd(fd);
}

int Process::Impl::install(int fd, DescriptionRef description, bool cloexec) {
  touch_effect(Effects::Thing::kDescriptor, Effects::kBoth, static_cast<std::uint64_t>(fd));
  slots[fd] = {std::move(description), cloexec};
  return fd;
}

void Process::Impl::drop(int fd) {
  touch_effect(Effects::Thing::kDescriptor, Effects::kBoth, static_cast<std::uint64_t>(fd));
  auto slot = slots.find(fd);
  DescriptionRef file = std::move(slot->second.file);
  slots.erase(slot);
  // fcntl(2): any close by the process gives up its locks, also those made through other descriptors.
  if (!file->is_path_only()) filesystem.drop_locks(file->ino, lock_owner());
}

bool Process::owns(int fd) const { return impl_->slots.count(fd) != 0; }

std::uint64_t Process::inode_lock_of(int fd) const {
  const auto slot = impl_->slots.find(fd);
  return slot == impl_->slots.end() ? 0 : Effects::lock_of_inode(slot->second.file->ino);
}
std::uint64_t Process::description_lock_of(int fd) const {
  const auto slot = impl_->slots.find(fd);
  return slot == impl_->slots.end() ? 0 : Effects::lock_of_description(slot->second.file->name);
}

std::vector<int> Process::descriptors() const {
  std::vector<int> all;
  for (const auto& [fd, slot] : impl_->slots) all.push_back(fd);
  return all;
}

int Process::close(int fd) {
  impl_->touch_effect(Effects::Thing::kDescriptor, Effects::kTarget, static_cast<std::uint64_t>(fd));
  if (!owns(fd)) return -EBADF;
  impl_->drop(fd);
  impl_->unreserve(fd);
  return 0;
}

int Process::dup(int fd, int lowest, bool cloexec) {
  DescriptionRef file = impl_->any(fd);
  if (!file) return -EBADF;
  if (lowest < 0) return -EINVAL;
  int copy = impl_->reserve(lowest);
  return copy < 0 ? copy : impl_->install(copy, std::move(file), cloexec);
}

int Process::dup_to(int fd, int new_fd, bool cloexec) {
  DescriptionRef file = impl_->any(fd);
  if (!file || new_fd < 0) return -EBADF;
  if (fd == new_fd) return fd;
  if (owns(new_fd)) {
    impl_->drop(new_fd);
    return impl_->install(new_fd, std::move(file), cloexec);
  }
  int reserved = impl_->setup.reserve_fd ? impl_->reserve(new_fd) : new_fd;
  if (reserved == new_fd) return impl_->install(new_fd, std::move(file), cloexec);
  // Somebody took the number meanwhile; dup2(2) has an errno for that race.
  if (reserved >= 0) impl_->unreserve(reserved);
  return reserved < 0 ? reserved : -EBUSY;
}

int Process::get_flags(int fd) {
  DescriptionRef file = impl_->any(fd);
  return file ? file->flags : -EBADF;
}

int Process::set_flags(int fd, int flags) {
  DescriptionRef file = impl_->file(fd);
  if (!file) return -EBADF;
  bool starts_noatime = (flags & O_NOATIME) && !(file->flags & O_NOATIME);
  if (starts_noatime)
    if (Errno error = impl_->access.check_owner(file->ino)) return error;
  if ((flags & O_DIRECT) && !S_ISREG(file->type)) return -EINVAL;
  file->touch(Effects::kBoth);
  file->flags = (file->flags & ~kSettableFlags) | (flags & kSettableFlags);
  return 0;
}

int Process::get_fd_flags(int fd) {
  impl_->touch_effect(Effects::Thing::kDescriptor, Effects::kTarget, static_cast<std::uint64_t>(fd));
  auto slot = impl_->slots.find(fd);
  if (slot == impl_->slots.end()) return -EBADF;
  return slot->second.cloexec ? FD_CLOEXEC : 0;
}

int Process::set_fd_flags(int fd, int flags) {
  impl_->touch_effect(Effects::Thing::kDescriptor, Effects::kBoth, static_cast<std::uint64_t>(fd));
  auto slot = impl_->slots.find(fd);
  if (slot == impl_->slots.end()) return -EBADF;
  slot->second.cloexec = (flags & FD_CLOEXEC) != 0;
  return 0;
}

// Paths.

Errno Process::Impl::start_of(int dirfd, std::string_view path, Ino& out) const {
  if (dirfd == AT_FDCWD) touch_effect(Effects::Thing::kDirectory, Effects::kTarget);
  out = cwd ? cwd->ino : kNoIno;
  bool is_relative = !path.empty() && path.front() != '/';
  if (dirfd == AT_FDCWD || !is_relative) return 0;
  DescriptionRef dir = any(dirfd);
  if (!dir) return -EBADF;
  out = dir->ino;
  return 0;
}

Errno Process::Impl::find(int dirfd, std::string_view path, int flags, Ino& out) {
  bool is_empty = path.empty() && (flags & AT_EMPTY_PATH);
  if (dirfd == AT_FDCWD) touch_effect(Effects::Thing::kDirectory, Effects::kTarget);
  // Nothing is walked then, so nothing need be searchable.
  if (is_empty && (dirfd != AT_FDCWD || cwd)) {
    DescriptionRef file = dirfd == AT_FDCWD ? cwd : any(dirfd);
    out = file ? file->ino : kNoIno;
    return file ? 0 : -EBADF;
  }
  Ino start = kNoIno;
  if (Errno error = start_of(dirfd, path, start)) return error;
  return walk.find(start, is_empty ? "." : path, !(flags & AT_SYMLINK_NOFOLLOW), out);
}

Errno Process::Impl::find_parent(int dirfd, std::string_view path, Place& out) {
  Ino start = kNoIno;
  if (Errno error = start_of(dirfd, path, start)) return error;
  return walk.find_parent(start, path, out);
}

// open.

int Process::openat(int dirfd, std::string_view path, int flags, mode_t mode) {
  flags = clean_open_flags(flags);
  if (Errno error = check_open_flags(flags)) return error;
  Ino start = kNoIno;
  if (Errno error = impl_->start_of(dirfd, path, start)) return error;
  Place place;
  if (Errno error = impl_->walk.resolve(start, path, walk_mode(flags), place)) return error;
  if (place.ino == kNoIno && !(flags & O_CREAT)) return -ENOENT;
  // Before anything changes: a file must not come into being where the number of descriptors is exhausted.
  int fd = impl_->reserve(0);
  if (fd < 0) return fd;
  if (Errno error = impl_->open_place(place, flags, mode)) {
    impl_->unreserve(fd);
    return error;
  }
  DescriptionRef file = impl_->open_description(place.ino, flags & ~kForgottenFlags);
  file->is_linkable = asks_for_tmpfile(flags) && !(flags & O_EXCL);
  return impl_->install(fd, std::move(file), flags & O_CLOEXEC);
}

// Makes place.ino ready to be opened, and creates it where it is missing.
Errno Process::Impl::open_place(Place& place, int flags, mode_t mode) {
  mode = S_IFREG | (mode & 07777 & ~setup.umask);
  touch_effect(Effects::Thing::kUmask, Effects::kTarget);
  if (asks_for_tmpfile(flags)) return make_tmpfile(place, mode);
  if (place.ino == kNoIno) return create_file(place, mode);
  if (Errno error = may_open(place, flags)) return error;
  bool cuts = (flags & O_TRUNC) && S_ISREG(filesystem.type(place.ino));
  return cuts ? truncate(place.ino, 0) : 0;
}

Errno Process::Impl::create_file(Place& place, mode_t mode) {
  if (Errno error = access.may_create(place.dir)) return error;
  if (Errno error = access.strip_setgid(place.dir, mode)) return error;
  return filesystem.create(place.dir, place.name, mode, 0, access.who(), place.ino);
}

Errno Process::Impl::make_tmpfile(Place& place, mode_t mode) {
  Ino dir = place.ino;
  if (!S_ISDIR(filesystem.type(dir))) return -ENOTDIR;
  if (Errno error = access.may_create(dir)) return error;
  if (Errno error = access.strip_setgid(dir, mode)) return error;
  return filesystem.tmpfile(dir, mode, access.who(), place.ino);
}

// The order of these checks is do_open()'s and may_open()'s.
Errno Process::Impl::may_open(const Place& place, int flags) const {
  Ino ino = place.ino;
  mode_t type = filesystem.type(ino);
  if ((flags & O_CREAT) && (flags & O_EXCL)) return -EEXIST;
  if ((flags & O_CREAT) && S_ISDIR(type)) return -EISDIR;
  if (flags & O_CREAT)
    if (Errno error = access.may_reopen(place.dir, ino)) return error;
  if ((flags & O_DIRECTORY) && !S_ISDIR(type)) return -ENOTDIR;
  if (flags & O_PATH) return 0;
  if (S_ISLNK(type)) return -ELOOP;
  int mask = access_mask(flags);
  if (S_ISDIR(type) && (mask & W_OK)) return -EISDIR;
  if (Errno error = access.check(ino, mask)) return error;
  if (flags & O_NOATIME)
    if (Errno error = access.check_owner(ino)) return error;
  if (!S_ISDIR(type) && !S_ISREG(type)) return -ENXIO;  // what lies behind them is not modelled
  return S_ISDIR(type) && (flags & O_DIRECT) ? -EINVAL : 0;
}

// The working directory.

int Process::chdir(std::string_view path) {
  Ino dir = kNoIno;
  if (Errno error = impl_->find(AT_FDCWD, path, 0, dir)) return error;
  if (!S_ISDIR(impl_->filesystem.type(dir))) return -ENOTDIR;
  if (Errno error = impl_->access.check(dir, X_OK)) return error;
  impl_->touch_effect(Effects::Thing::kDirectory, Effects::kBoth);
  impl_->cwd = impl_->open_description(dir, O_PATH);
  return 0;
}

int Process::fchdir(int fd) {
  DescriptionRef file = impl_->any(fd);
  if (!file) return -EBADF;
  if (!S_ISDIR(file->type)) return -ENOTDIR;
  if (Errno error = impl_->access.check(file->ino, X_OK)) return error;
  impl_->touch_effect(Effects::Thing::kDirectory, Effects::kBoth);
  impl_->cwd = impl_->open_description(file->ino, O_PATH);
  return 0;
}

void Process::chdir_outside() {
  impl_->touch_effect(Effects::Thing::kDirectory, Effects::kBoth);
  impl_->cwd = nullptr;
}

std::string Process::getcwd() const {
  impl_->touch_effect(Effects::Thing::kDirectory, Effects::kTarget);
  if (!impl_->cwd) return "";
  std::string path = impl_->walk.path_of(impl_->cwd->ino);
  return path.empty() ? "(unreachable)" : path;
}

void Process::set_credentials(Credentials who) { impl_->access.become(std::move(who)); }

mode_t Process::set_umask(mode_t mask) {
  impl_->touch_effect(Effects::Thing::kUmask, Effects::kBoth);
  return std::exchange(impl_->setup.umask, mask & 0777);
}

// Locks.

namespace {

bool is_ofd(int command) { return command == F_OFD_GETLK || command == F_OFD_SETLK || command == F_OFD_SETLKW; }
bool is_test(int command) { return command == F_GETLK || command == F_OFD_GETLK; }
bool is_lock_command(int command) {
  return is_ofd(command) || command == F_GETLK || command == F_SETLK || command == F_SETLKW;
}

// Makes l_start count from the file's start and l_len positive or 0.
Errno make_absolute(Filesystem& filesystem, const Description& file, struct flock& lock) {
  std::int64_t base = 0;
  if (lock.l_whence == SEEK_CUR) base = static_cast<std::int64_t>(file.offset);
  const bool is_directory = S_ISDIR(file.type);  // one block long, as stat says
  if (lock.l_whence == SEEK_END)
    base = is_directory ? filesystem.block_bytes() : filesystem.seek(file.ino, 0, SEEK_END);
  if (lock.l_whence < SEEK_SET || lock.l_whence > SEEK_END) return -EINVAL;
  if (base < 0) return static_cast<Errno>(base);
  if (lock.l_start > LLONG_MAX - base) return -EOVERFLOW;
  lock.l_start += base;
  lock.l_whence = SEEK_SET;
  if (lock.l_start < 0) return -EINVAL;
  if (lock.l_len > 0 && lock.l_len - 1 > LLONG_MAX - lock.l_start) return -EOVERFLOW;
  if (lock.l_len >= 0) return 0;
  if (lock.l_start + lock.l_len < 0) return -EINVAL;
  lock.l_start += lock.l_len;
  lock.l_len = -lock.l_len;
  return 0;
}

Errno check_lock_mode(const Description& file, short type) {
  if (type == F_RDLCK && !file.is_readable()) return -EBADF;
  if (type == F_WRLCK && !file.is_writable()) return -EBADF;
  return 0;
}

}  // namespace

int Process::lock(int fd, int command, struct flock& lock) {
  DescriptionRef file = impl_->file(fd);
  if (!file) return -EBADF;
  if (!is_lock_command(command)) return -EINVAL;
  if (lock.l_type != F_RDLCK && lock.l_type != F_WRLCK && lock.l_type != F_UNLCK) return -EINVAL;
  if (command == F_GETLK && lock.l_type == F_UNLCK) return -EINVAL;
  struct flock range = lock;
  if (Errno error = make_absolute(impl_->filesystem, *file, range)) return error;
  std::uint64_t owner = is_ofd(command) ? file->lock_owner() : impl_->lock_owner();
  if (!is_test(command))
    if (Errno error = check_lock_mode(*file, lock.l_type)) return error;
  if (is_ofd(command) && lock.l_pid != 0) return -EINVAL;
  if (is_ofd(command)) range.l_pid = -1;
  if (!is_test(command)) return impl_->filesystem.posix_lock(file->ino, owner, range);
  if (Errno error = impl_->filesystem.posix_test_lock(file->ino, owner, range)) return error;
  // Where nothing is in the way, fcntl(2) changes l_type alone.
  if (range.l_type == F_UNLCK) lock.l_type = F_UNLCK;
  if (range.l_type != F_UNLCK) lock = range;
  return 0;
}

int Process::flock(int fd, int operation) {
  DescriptionRef file = impl_->file(fd);
  int kind = operation & ~LOCK_NB;
  if (kind != LOCK_SH && kind != LOCK_EX && kind != LOCK_UN) return -EINVAL;
  return file ? impl_->filesystem.flock(file->ino, file->lock_owner(), operation) : -EBADF;
}

}  // namespace crashcut::fusefs
