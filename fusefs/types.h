// Types that all of fusefs/ shares.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace crashcut::fusefs {

enum class Ino : std::uint64_t {};
inline constexpr Ino kNoIno{0};
inline constexpr Ino kRootIno{2};                     // as on ext4
inline constexpr mode_t kRootMode = S_IFDIR | 01777;  // every user may work in it, as in /tmp

// What an inode holds besides its size and its data. The type bits of `mode` never change.
struct Meta {
  mode_t mode = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  nlink_t nlink = 0;
  dev_t rdev = 0;
  timespec atime{};
  timespec mtime{};
  timespec ctime{};
  std::string symlink_target;
  std::map<std::string, std::string> xattrs;
};

// The part of it that permissions depend on.
struct Owner {
  mode_t mode = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  bool operator==(const Owner&) const = default;
};
inline Owner owner_of(const Meta& meta) { return Owner{meta.mode, meta.uid, meta.gid}; }

// The process that does an operation: it owns what it creates, and has these permissions.
struct Credentials {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
};

// The sysctls fs.protected_{symlinks,regular,fifos}: what a process may not do with files of other users in directories
// that are sticky and writable by all. 0, the kernel's own default, forbids nothing; many distributions set 1 or 2.
struct StickyProtection {
  int symlinks = 0;
  int regular = 0;
  int fifos = 0;
};

// Errors of the modelled system are values: negative errno numbers, as the kernel returns them.
using Errno = int;

}  // namespace crashcut::fusefs
