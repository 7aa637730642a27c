// What fsx_test does: random operations on files, and what comes of one.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>

namespace crashcut::tests::fsx {

inline constexpr std::size_t kSlots = 5;
inline constexpr off_t kFileBytesMost = 300'000;
inline constexpr time_t kLongAgo = 1'200'000'000;  // times that operations set lie around it
inline constexpr time_t kRecent = 1'500'000'000;   // what the clock gives lies after it
inline constexpr uid_t kUser = 1234;

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

inline constexpr const char* kCallNames[] = {
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
inline std::string difference(const std::string& a, const std::string& b) {
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

}  // namespace crashcut::tests::fsx
