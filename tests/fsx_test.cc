// Random operations on the mount and on the host's ext4 at once: every result, errno, attribute and byte must be equal.
//
// A run is a row of seeds, each a row of operations in a fresh directory; it lasts some seconds, an hour with
//   CRASHCUT_LONG=1 (half of it for each way of caching). A seed that found a difference is printed: CRASHCUT_SEED=n
//   does it again. CRASHCUT_FSX_SECONDS sets how long.
// Compared: what each call returns; then the attributes of the file it was about; now and then the whole tree: names,
//   types, attributes, contents, symlinks, xattrs. Times: whether they are those that were set, or newer.
// Not compared, each with its reason:
//   st_blocks and a directory's size: ext4 counts blocks of its own (extent trees, xattrs) and allocates late;
//   st_ino and st_dev: numbers of another filesystem;
//   COLLAPSE_RANGE, INSERT_RANGE, RENAME_WHITEOUT, FS_IOC_*: the kernel's FUSE refuses them (fusefs/mount/mount.h);
//   direct writes of several blocks and a part of a sector: ext4 writes some of them before it fails; of a part of a
//   sector where there is no data: ext4 allocates the block before it fails, and a direct read can tell; copies by the
//   kernel through a direct descriptor: FUSE does not say that it is one;
//   sendfile from a file to itself: what is read may be what was just written;
//   with kNothing, the offset of a descriptor after it appended: the kernel counts from the size that it remembers;
//   with kNothing, whether a user may go through "." and "..": the kernel does not ask. And which of two errors a user
//   gets where one is for a lack of permission: the kernel asks for that when it goes on, not as it passes;
//   where there is data, by SEEK_DATA, SEEK_HOLE and direct reads, in seeds with stores to maps (every other one): a
//   store into a hole makes data of as many blocks as ext4 keeps in one folio; lseek on a directory: cookies are a
//   filesystem's own; fifos with kNothing: the kernel opens them without asking whether it may; times of a fifo: what
//   goes through it does not reach a FUSE filesystem.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <random>

#include "tests/mounted.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

using fusefs::Mount;

constexpr std::size_t kSlots = 5;
constexpr off_t kFileBytesMost = 300'000;
constexpr time_t kLongAgo = 1'200'000'000;  // times that operations set lie around it
constexpr time_t kRecent = 1'500'000'000;   // what the clock gives lies after it
constexpr uid_t kUser = 1234;

// ---- what is done ---------------------------------------------------------------------------------------------------

enum class Call {
  kOpen,
  kClose,
  kRead,
  kPread,
  kWrite,
  kPwrite,
  kSeek,
  kFtruncate,
  kTruncate,
  kFallocate,
  kMapRead,
  kMapWrite,
  kFsync,
  kRename,
  kLink,
  kLinkSlot,
  kUnlink,
  kRmdir,
  kMkdir,
  kSymlink,
  kReadlink,
  kChmod,
  kFchmod,
  kChown,
  kUtimens,
  kSetXattr,
  kGetXattr,
  kRemoveXattr,
  kListXattr,
  kCopyRange,
  kSendfile,
  kStat,
  kFstat,
  kAccess,
  kList,
  kMkfifo,
  kCount,
};

constexpr const char* kCallNames[] = {
    "open",     "close",     "read",     "pread",       "write",     "pwrite",          "lseek",    "ftruncate",
    "truncate", "fallocate", "map_read", "map_write",   "fsync",     "rename",          "link",     "link_slot",
    "unlink",   "rmdir",     "mkdir",    "symlink",     "readlink",  "chmod",           "fchmod",   "chown",
    "utimens",  "setxattr",  "getxattr", "removexattr", "listxattr", "copy_file_range", "sendfile", "stat",
    "fstat",    "access",    "list",     "mkfifo",
};
static_assert(std::size(kCallNames) == static_cast<std::size_t>(Call::kCount));

struct Op {
  Call call{};
  std::size_t slot = 0;
  std::size_t other_slot = 0;
  std::string path;
  std::string other_path;
  int flags = 0;
  mode_t mode = 0;
  off_t offset = 0;
  off_t other_offset = 0;
  std::size_t length = 0;
  char fill = 0;
  bool as_user = false;

  std::string text() const {
    const auto shortened = [](const std::string& name) {
      return name.size() < 100 ? name : fmt::format("n * {}", name.size());
    };
    return fmt::format("{}(slot {} {}, '{}' '{}', flags {:#o}, mode {:04o}, offset {} {}, length {}, '{}'){}",
                       kCallNames[static_cast<std::size_t>(call)], slot, other_slot, shortened(path),
                       shortened(other_path), static_cast<unsigned>(flags), static_cast<unsigned>(mode), offset,
                       other_offset, length, fill, as_user ? " by a user" : "");
  }
};

struct Outcome {
  long result = 0;
  int error = 0;
  std::string data;
  bool operator==(const Outcome&) const = default;

  std::string text() const {
    std::string shown = data.substr(0, 200);
    return fmt::format("{}{} {} bytes {}", result, result < 0 ? std::string(" ") + std::strerror(error) : "",
                       data.size(), data.size() == shown.size() && data.find('\0') == data.npos ? shown : "");
  }
};

// The first byte in which two differ, for people.
std::string difference(const std::string& a, const std::string& b) {
  const auto at =
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin());
  const auto offset = static_cast<std::size_t>(at.first - a.begin());
  const auto byte = [&](const std::string& s) {
    return offset < s.size() ? static_cast<int>(static_cast<unsigned char>(s[offset])) : -1;
  };
  return fmt::format("differ at {} ({} and {})", offset, byte(a), byte(b));
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed), stores_to_maps_(seed % 2 == 0) {}

  Op next() {
    Op op;
    op.call = static_cast<Call>(kWeighted[below(std::size(kWeighted))]);
    op.slot = below(kSlots);
    op.other_slot = below(kSlots);
    op.path = path();
    op.other_path = path();
    op.mode = mode();
    op.offset = offset();
    op.other_offset = offset();
    op.length = length();
    op.fill = static_cast<char>('a' + below(26));
    op.as_user = below(5) == 0;
    op.flags = flags(op.call);
    // By a stranger it takes setuid bits away: it comes as what the kernel does before a write.
    if (op.call == Call::kChown && (op.flags & 3) == 0) op.as_user = false;
    // Through a symlink to the root, ".." would lead out of it.
    if (op.call == Call::kSymlink && op.other_path.ends_with("..")) op.other_path = "d";
    if (op.call == Call::kMapWrite && !stores_to_maps_) op.call = Call::kMapRead;
    if (op.call == Call::kSeek && stores_to_maps_ && (op.flags == SEEK_DATA || op.flags == SEEK_HOLE))
      op.flags = SEEK_SET;
    if (stores_to_maps_) op.flags &= op.call == Call::kOpen ? ~O_DIRECT : ~0;
    return op;
  }

 private:
  static constexpr Call kWeighted[] = {
      Call::kOpen,     Call::kOpen,      Call::kOpen,        Call::kOpen,      Call::kOpen,      Call::kClose,
      Call::kRead,     Call::kRead,      Call::kPread,       Call::kPread,     Call::kWrite,     Call::kWrite,
      Call::kWrite,    Call::kPwrite,    Call::kPwrite,      Call::kPwrite,    Call::kSeek,      Call::kSeek,
      Call::kSeek,     Call::kFtruncate, Call::kFtruncate,   Call::kTruncate,  Call::kFallocate, Call::kFallocate,
      Call::kMapRead,  Call::kMapWrite,  Call::kMapWrite,    Call::kFsync,     Call::kRename,    Call::kRename,
      Call::kLink,     Call::kLinkSlot,  Call::kUnlink,      Call::kRmdir,     Call::kMkdir,     Call::kMkdir,
      Call::kSymlink,  Call::kReadlink,  Call::kChmod,       Call::kFchmod,    Call::kChown,     Call::kUtimens,
      Call::kSetXattr, Call::kGetXattr,  Call::kRemoveXattr, Call::kListXattr, Call::kCopyRange, Call::kCopyRange,
      Call::kSendfile, Call::kStat,      Call::kFstat,       Call::kAccess,    Call::kList,      Call::kMkfifo,
  };

  std::size_t below(std::size_t count) { return random_() % count; }
  bool one_in(std::size_t count) { return below(count) == 0; }

  std::string path() {
    static constexpr const char* kNames[] = {"a", "b", "c", "d"};
    std::string text = kNames[below(4)];
    for (std::size_t depth = below(10) < 6 ? 0 : 1 + below(2); depth > 0; --depth)
      text += std::string("/") + kNames[below(4)];
    if (one_in(60)) text += "/";
    if (one_in(60)) text += "/..";
    if (one_in(80)) text += "/.";
    if (one_in(200)) text = std::string(256, 'n');
    if (one_in(200)) text = std::string(255, 'n');
    return text;
  }
  mode_t mode() {
    static constexpr mode_t kModes[] = {0644,  0600,  0666,  0755,  0777,  0,     0444, 0711,
                                        04755, 02755, 02745, 06777, 01777, 02777, 0700};
    return kModes[below(std::size(kModes))];
  }
  off_t offset() {
    if (one_in(3)) return static_cast<off_t>(below(64) * 4096);
    if (one_in(3)) return static_cast<off_t>(below(600) * 512);
    if (one_in(50)) return -static_cast<off_t>(below(3));
    return static_cast<off_t>(below(one_in(2) ? 10'000 : kFileBytesMost));
  }
  std::size_t length() {
    if (one_in(4)) return below(8) * 4096;
    if (one_in(6)) return below(64) * 512;
    if (one_in(40)) return 0;
    return below(one_in(2) ? 100 : 20'000);
  }
  int flags(Call call) {
    switch (call) {
      case Call::kOpen:
        return open_flags();
      case Call::kFsync:
        return static_cast<int>(below(2));
      case Call::kSeek: {
        static constexpr int kWhence[] = {SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE, SEEK_DATA, SEEK_HOLE, 77};
        return kWhence[below(std::size(kWhence))];
      }
      case Call::kFallocate: {
        static constexpr int kModes[] = {0,
                                         FALLOC_FL_KEEP_SIZE,
                                         FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                         FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                         FALLOC_FL_ZERO_RANGE,
                                         FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
                                         FALLOC_FL_PUNCH_HOLE};
        return kModes[below(std::size(kModes))];
      }
      case Call::kRename:
        return static_cast<int>(below(5) < 3 ? 0 : one_in(2) ? RENAME_NOREPLACE : RENAME_EXCHANGE);
      case Call::kSetXattr:
        return static_cast<int>(below(4) < 2 ? 0 : one_in(2) ? XATTR_CREATE : XATTR_REPLACE);
      case Call::kMapWrite:
        return static_cast<int>(below(3));  // no msync, MS_SYNC, MS_ASYNC
      case Call::kAccess:
        return static_cast<int>(below(8));
      default:
        return static_cast<int>(below(16));
    }
  }
  int open_flags() {
    int flags = one_in(4) ? O_RDONLY : one_in(4) ? O_WRONLY : O_RDWR;
    if (!one_in(3)) flags |= O_CREAT;
    if (one_in(10)) flags |= O_EXCL;
    if (one_in(6)) flags |= O_TRUNC;
    if (one_in(5)) flags |= O_APPEND;
    if (one_in(6)) flags |= O_DIRECT;
    if (one_in(10)) flags |= one_in(2) ? O_SYNC : O_DSYNC;
    if (one_in(20)) flags |= O_NOFOLLOW;
    if (one_in(20)) flags |= O_DIRECTORY;
    if (one_in(12)) flags = (flags & ~(O_CREAT | O_ACCMODE)) | O_TMPFILE | (one_in(4) ? O_WRONLY : O_RDWR);
    return flags;
  }

  std::mt19937_64 random_;
  bool stores_to_maps_;
};

// ---- one of the two filesystems -------------------------------------------------------------------------------------

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

long Side::open_slot(const Op& op) {
  if (fds_[op.slot] >= 0) close(fds_[op.slot]);
  fds_[op.slot] = openat(root_, op.path.c_str(), op.flags | O_CLOEXEC | O_NONBLOCK, op.mode);
  return fds_[op.slot] < 0 ? -1 : 0;
}

long Side::map(const Op& op, std::string& data, bool writes) {
  const int fd = fds_[op.slot];
  struct stat now {};
  if (fstat(fd, &now) != 0 || !S_ISREG(now.st_mode)) return -2;
  const off_t begin = op.offset < 0 ? 0 : op.offset / 4096 * 4096;
  if (begin >= now.st_size) return -3;
  const auto length = static_cast<std::size_t>(std::min<off_t>(now.st_size - begin, static_cast<off_t>(op.length) + 1));
  void* const where = mmap(nullptr, length, writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, begin);
  if (where == MAP_FAILED) return -1;
  auto* const bytes = static_cast<char*>(where);
  if (writes) {
    const std::size_t first = static_cast<std::size_t>(op.other_offset < 0 ? 0 : op.other_offset) % length;
    std::memset(bytes + first, op.fill, length - first);
    if (op.flags != 0) msync(where, length, op.flags == 1 ? MS_SYNC : MS_ASYNC);
  } else {
    data.assign(bytes, length);
  }
  munmap(where, length);
  return static_cast<long>(length);
}

long Side::list(const Op& op, std::string& data) {
  const int dir = openat(root_, op.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return -1;
  for (const auto& [name, type] : names_in(dir)) data += fmt::format("{} {} ", name, type);
  close(dir);
  return 0;
}

long Side::call_xattr(const Op& op, std::string& data) {
  static constexpr const char* kNames[] = {"user.one",    "user.two", "trusted.one", "user.",
                                           "system.none", "none",     "security.x",  "user.three"};
  const std::string path = root_path_ + "/" + op.path;
  const char* name = kNames[op.mode % std::size(kNames)];
  std::array<char, 4096> value;
  value.fill(op.fill);
  ssize_t result = 0;
  switch (op.call) {
    case Call::kSetXattr:
      return lsetxattr(path.c_str(), name, value.data(), op.length % 800, op.flags);
    case Call::kGetXattr:
      result = lgetxattr(path.c_str(), name, value.data(), op.flags % 4 == 0 ? 0 : value.size());
      break;
    case Call::kRemoveXattr:
      return lremovexattr(path.c_str(), name);
    default:
      result = llistxattr(path.c_str(), value.data(), value.size());
      return result;  // in whatever order: the tree has their names
  }
  if (result > 0 && op.flags % 4 != 0) data.assign(value.data(), static_cast<std::size_t>(result));
  return result;
}

long Side::call(const Op& op, std::string& data) {
  const int fd = fds_[op.slot];
  const char* path = op.path.c_str();
  switch (op.call) {
    case Call::kOpen:
      return open_slot(op);
    case Call::kClose: {
      const long result = close(fd);
      fds_[op.slot] = -1;
      return result;
    }
    case Call::kRead:
    case Call::kPread: {
      std::byte* buffer = aligned_buffer();
      const ssize_t n = op.call == Call::kRead ? read(fd, buffer, op.length) : pread(fd, buffer, op.length, op.offset);
      if (n > 0) data.assign(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(n));
      return n;
    }
    case Call::kWrite:
      if (would_allocate_and_fail(fd, lseek(fd, 0, SEEK_CUR), op.length)) return 0;
      return write(fd, filled_buffer(op), write_length(fd, op.length));
    case Call::kPwrite:
      if (would_allocate_and_fail(fd, op.offset, op.length)) return 0;
      return pwrite(fd, filled_buffer(op), write_length(fd, op.length), op.offset);
    case Call::kSeek:
      if (is_directory(fd)) return 0;
      if (op.flags == SEEK_DATA || op.flags == SEEK_HOLE) settle(fd);
      return lseek(fd, op.offset, op.flags);
    case Call::kFtruncate:
      return ftruncate(fd, op.offset);
    case Call::kTruncate:
      return truncate((root_path_ + "/" + op.path).c_str(), op.offset);
    case Call::kFallocate:
      return fallocate(fd, op.flags, op.offset, static_cast<off_t>(op.length));
    case Call::kMapRead:
      return map(op, data, false);
    case Call::kMapWrite:
      return map(op, data, true);
    case Call::kFsync:
      return op.flags ? fsync(fd) : fdatasync(fd);
    case Call::kRename:
      return renameat2(root_, path, root_, op.other_path.c_str(), static_cast<unsigned>(op.flags));
    case Call::kLink:
      return linkat(root_, path, root_, op.other_path.c_str(), op.flags % 2 ? AT_SYMLINK_FOLLOW : 0);
    case Call::kLinkSlot:
      return linkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", fd).c_str(), root_, path, AT_SYMLINK_FOLLOW);
    case Call::kUnlink:
      return unlinkat(root_, path, 0);
    case Call::kRmdir:
      return unlinkat(root_, path, AT_REMOVEDIR);
    case Call::kMkdir:
      return mkdirat(root_, path, op.mode);
    case Call::kSymlink:
      return symlinkat(op.other_path.c_str(), root_, path);
    case Call::kReadlink: {
      std::array<char, 512> target;
      const ssize_t n = readlinkat(root_, path, target.data(), target.size());
      if (n > 0) data.assign(target.data(), static_cast<std::size_t>(n));
      return n;
    }
    case Call::kChmod:
      return fchmodat(root_, path, op.mode, 0);
    case Call::kFchmod:
      return fchmod(fd, op.mode);
    case Call::kChown:
      return fchownat(root_, path, op.flags & 1 ? kUser : -1, op.flags & 2 ? (op.flags & 4 ? kUser : 0) : -1,
                      AT_SYMLINK_NOFOLLOW);
    case Call::kUtimens: {
      const timespec times[2] = {{kLongAgo + op.offset, op.flags & 1   ? UTIME_NOW
                                                        : op.flags & 2 ? UTIME_OMIT
                                                                       : 12345},
                                 {kLongAgo + op.other_offset, op.flags & 4   ? UTIME_NOW
                                                              : op.flags & 8 ? UTIME_OMIT
                                                                             : 999'999'999}};
      return utimensat(root_, path, times, AT_SYMLINK_NOFOLLOW);
    }
    case Call::kSetXattr:
    case Call::kGetXattr:
    case Call::kRemoveXattr:
    case Call::kListXattr:
      return call_xattr(op, data);
    case Call::kCopyRange: {
      if (is_direct(fd) || is_direct(fds_[op.other_slot])) return 0;
      off_t from = op.offset, to = op.other_offset;
      const ssize_t n = copy_file_range(fd, &from, fds_[op.other_slot], &to, op.length, 0);
      data = fmt::format("{} {}", from, to);
      return n;
    }
    case Call::kSendfile: {
      if (is_direct(fd) || is_direct(fds_[op.other_slot]) || is_same(fd, fds_[op.other_slot])) return 0;
      off_t from = op.offset;
      const ssize_t n = sendfile(fds_[op.other_slot], fd, &from, op.length);
      data = fmt::format("{}", from);
      return n;
    }
    case Call::kStat:
      data = attributes(op.path);
      return 0;
    case Call::kFstat:
      data = attributes(op.slot);
      return 0;
    case Call::kAccess:
      return faccessat(root_, path, op.flags, 0);
    case Call::kList:
      return list(op, data);
    case Call::kMkfifo:
      return mknodat(root_, path, S_IFIFO | op.mode, 0);
    case Call::kCount:
      break;
  }
  return 0;
}

// ---- the two beside each other --------------------------------------------------------------------------------------

// A loop-mounted ext4 where that is possible: noatime, as ours is. Else a directory of the system, if it is on ext4.
class HostExt4 {
 public:
  HostExt4() {
    std::string pattern = (std::filesystem::temp_directory_path() / "crashcut_ext4_XXXXXX").string();
    base_ = mkdtemp(pattern.data());
    chmod(base_.c_str(), 0755);
    directory_ = base_ + "/m";
    std::filesystem::create_directory(directory_);
    const std::string image = base_ + "/image";
    const std::string command = fmt::format(
        "truncate -s 512M {0} && mkfs.ext4 -q -b 4096 {0} && mount -o loop,noatime {0} {1}", image, directory_);
    is_mounted_ = std::system((command + " 2>" + base_ + "/log").c_str()) == 0;
    // By default ext4 writes zeros to small preallocated ranges around a write, which then are data to SEEK_DATA.
    const std::string exact =
        fmt::format("echo 0 > /sys/fs/ext4/$(basename $(findmnt -no SOURCE {}))/extent_max_zeroout_kb", directory_);
    is_mounted_ = is_mounted_ && std::system((exact + " 2>>" + base_ + "/log").c_str()) == 0;
  }
  ~HostExt4() {
    if (is_mounted_) {
      EXPECT_EQ(std::system(("umount " + directory_).c_str()), 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(base_, ignored);
  }
  bool is_mounted() const { return is_mounted_; }
  const std::string& directory() const { return directory_; }

 private:
  std::string base_;
  std::string directory_;
  bool is_mounted_ = false;
};

// Where the two differ after the operation, or nothing.
std::string compare(const Op& op, Side& ours, Side& theirs, bool exact) {
  const Outcome a = ours.apply(op);
  const Outcome b = theirs.apply(op);
  const bool is_offset = exact && op.call == Call::kSeek && op.flags == SEEK_CUR;
  const auto is_denied = [](const Outcome& outcome) { return outcome.error == EACCES || outcome.error == EPERM; };
  const bool both_fail = exact && op.as_user && a.result < 0 && b.result < 0 && (is_denied(a) || is_denied(b));
  if (a != b && !is_offset && !both_fail) {
    return fmt::format("ours:   {}\n        slot: {}\next4's: {}\n        slot: {}\n{}", a.text(), ours.layout(op.slot),
                       b.text(), theirs.layout(op.slot), a.data != b.data ? difference(a.data, b.data) : "");
  }
  for (const std::string& path : {op.path, op.other_path}) {
    const std::string mine = ours.attributes(path), its = theirs.attributes(path);
    if (mine != its) return fmt::format("'{}' is\nours:   {}\next4's: {}", path, mine, its);
  }
  for (const std::size_t slot : {op.slot, op.other_slot}) {
    const std::string mine = ours.attributes(slot), its = theirs.attributes(slot);
    if (mine != its) return fmt::format("slot {} is\nours:   {}\next4's: {}", slot, mine, its);
  }
  return "";
}

std::string compare_trees(const Side& ours, const Side& theirs) {
  const std::string a = ours.tree(), b = theirs.tree();
  return a == b ? "" : fmt::format("the trees are\nours:\n{}\next4's:\n{}", a, b);
}

bool has_dots(const std::string& path) { return path.find("/.") != path.npos; }

// Whether nothing differed.
bool run_seed(std::uint64_t seed, const std::string& ours_root, const std::string& theirs_root,
              Mount::Caching caching) {
  constexpr int kOps = 400;
  const bool is_replay = std::getenv("CRASHCUT_SEED") != nullptr;  // then look at everything after each operation
  Side ours(fmt::format("{}/{}", ours_root, seed));
  Side theirs(fmt::format("{}/{}", theirs_root, seed));
  if (!ours.is_open() || !theirs.is_open()) {
    ADD_FAILURE() << "cannot make the directories of seed " << seed << ": " << std::strerror(errno);
    return false;
  }
  Generator generator(seed);
  std::vector<std::string> history;
  for (int i = 0; i < kOps; ++i) {
    Op op = generator.next();
    if (caching == Mount::Caching::kNothing && op.call == Call::kMkfifo) continue;
    if (caching == Mount::Caching::kNothing && (has_dots(op.path) || has_dots(op.other_path))) op.as_user = false;
    history.push_back(op.text());
    std::string what = compare(op, ours, theirs, caching == Mount::Caching::kNothing);
    if (what.empty() && (i % 80 == 79 || i == kOps - 1 || is_replay)) what = compare_trees(ours, theirs);
    if (what.empty()) continue;
    const std::size_t shown = std::min<std::size_t>(history.size(), 400);
    ADD_FAILURE() << "seed " << seed << ", operation " << i << " (CRASHCUT_SEED=" << seed << " does it again)\n"
                  << fmt::format("{}",
                                 fmt::join(history.end() - static_cast<std::ptrdiff_t>(shown), history.end(), "\n"))
                  << "\n"
                  << what;
    return false;
  }
  return true;
}

class Fsx : public testing::TestWithParam<Mount::Caching> {};

TEST_P(Fsx, TheMountIsAsTheHostsExt4) {
  if (const std::string why = why_no_mount(); !why.empty()) GTEST_SKIP() << why;
  const HostExt4 host;
  if (!host.is_mounted()) GTEST_SKIP() << "no loop device or no mkfs.ext4: nothing to compare with";
  umask(0);
  signal(SIGPIPE, SIG_IGN);  // there are fifos
  Mounted mounted({.caching = GetParam()});
  chmod(mounted.directory().c_str(), 0777);
  const auto run = [&](std::uint64_t seed) {
    return run_seed(seed, mounted.directory(), host.directory(), GetParam());
  };
  if (const char* text = std::getenv("CRASHCUT_SEED")) {
    run(std::strtoull(text, nullptr, 10));
    return;
  }
  // A short run does the same seeds as far as it comes; a long one goes on from a seed of its own.
  std::uint64_t seed = is_long_run() ? static_cast<std::uint64_t>(time(nullptr)) : 1;
  auto budget = is_long_run() ? std::chrono::seconds(1800) : std::chrono::seconds(4);
  if (const char* seconds = std::getenv("CRASHCUT_FSX_SECONDS")) budget = std::chrono::seconds(std::atoi(seconds));
  const auto end = std::chrono::steady_clock::now() + budget;
  std::uint64_t count = 0;
  for (; std::chrono::steady_clock::now() < end; ++seed, ++count) {
    if (!run(seed)) return;
  }
  std::printf("%lu seeds up to %lu\n", count, seed - 1);
}

INSTANTIATE_TEST_SUITE_P(Caching, Fsx, testing::Values(Mount::Caching::kKept, Mount::Caching::kNothing),
                         [](const auto& info) { return info.param == Mount::Caching::kKept ? "Kept" : "Nothing"; });

}  // namespace
}  // namespace crashcut::tests
