// Filesystem: a POSIX filesystem in memory, inode by inode, that tells a Recorder what must persist.
//
// Models: names, hard links, symlinks, sizes, sparse data, modes, owners, times, xattrs, rename with
//   NOREPLACE and EXCHANGE, fallocate in all of ext4's modes, orphans, POSIX and flock locks; errno as Linux
//   gives it. Does not model: quotas, ACLs, device nodes' behaviour.
// Paths, descriptors and permissions are one layer up (Process), as they are in the kernel.
//
// Consistency between threads (PerSeVerE 2.3): a write holds its inode's lock; a read holds none. Both go
//   block by block, and the size of a growing file rises block by block; between two blocks on_step() runs, where a
//   scheduler may let another thread in. A change of an inode whose lock is held returns kWouldBlock.
//
// Threads: one operation at a time; the caller serialises (on_step is the only re-entry).
#pragma once

#include <fcntl.h>
#include <sys/statvfs.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fusefs/byte_store.h"
#include "fusefs/medium.h"
#include "fusefs/recorder.h"
#include "fusefs/types.h"

namespace crashcut::fusefs {

inline constexpr int kWouldBlock = -1000;  // not an errno: the scheduler must run another thread first

struct DirEntry {
  std::string name;
  Ino ino;
  mode_t type;
  std::uint64_t cookie;  // readdir continues after it, even if the directory has changed meanwhile
};

struct WriteFlags {
  bool append = false;
  bool direct = false;
  bool dsync = false;  // O_DSYNC, RWF_DSYNC
  bool sync = false;   // O_SYNC
};

// What setattr changes; the rest stays.
struct AttrChange {
  std::optional<mode_t> mode;  // permission bits
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
  std::optional<timespec> atime;  // tv_nsec may be UTIME_NOW
  std::optional<timespec> mtime;
};

class Filesystem {
 public:
  struct Setup {
    Recorder* recorder = nullptr;  // null: nothing will be crashed
    Medium* medium = nullptr;      // null: an empty disk
    std::uint32_t sector_bytes = 512;
    std::uint32_t block_bytes = 4096;
    std::uint64_t capacity_bytes = std::uint64_t{1} << 34;
    bool noatime = false;             // a mount does not learn of reads that the kernel's caches answer
    std::function<timespec()> clock;  // null: a clock that ticks a microsecond an operation
    std::function<void()> on_step;
    Effects* effects = nullptr;  // null: nobody asks which calls commute
    bool is_only_read = false;   // nobody writes to it: what is read from the medium is not kept
  };
  explicit Filesystem(Setup setup);
  ~Filesystem();
  Filesystem(const Filesystem&) = delete;
  Filesystem& operator=(const Filesystem&) = delete;

  // Names. Each returns 0 or a negative errno. `name` is one component; its length and "." are checked here.
  Errno lookup(Ino dir, std::string_view name, Ino& out);
  Errno create(Ino dir, std::string_view name, mode_t mode, dev_t rdev, const Credentials& who,
               Ino& out);  // type bits of mode: file, fifo, socket, device
  Errno mkdir(Ino dir, std::string_view name, mode_t mode, const Credentials& who, Ino& out);
  Errno symlink(Ino dir, std::string_view name, std::string_view target, const Credentials& who, Ino& out);
  Errno tmpfile(Ino dir, mode_t mode, const Credentials& who,
                Ino& out);  // the inode has no name and no open description: call add_open()
  Errno link(Ino ino, Ino dir, std::string_view name);
  Errno unlink(Ino dir, std::string_view name);
  Errno rmdir(Ino dir, std::string_view name);
  Errno rename(Ino from_dir, std::string_view from, Ino to_dir, std::string_view to, unsigned flags);
  Errno readlink(Ino ino, std::string& target);
  // Entries after `cookie` (0: from the start), "." and ".." first.
  Errno readdir(Ino dir, std::uint64_t cookie, std::size_t most, std::vector<DirEntry>& out);

  // Attributes.
  Errno getattr(Ino ino, struct stat& out);
  mode_t type(Ino ino);
  // The size of a regular file if it is decided already; none if asking would decide it.
  std::optional<std::uint64_t> known_size(Ino ino);
  // What permissions depend on, and nothing else: on a crashed disk the rest stays undecided.
  Errno get_owner(Ino ino, Owner& out);
  Errno setattr(Ino ino, const AttrChange& change);
  // The data or the entries of the inode were read: updates its access time as relatime does. The caller looks after
  // O_NOATIME. readlink() calls this itself.
  void note_access(Ino ino);
  Errno set_xattr(Ino ino, const std::string& name, std::string_view value, int flags);
  Errno get_xattr(Ino ino, const std::string& name, std::string& value);
  Errno list_xattr(Ino ino, std::vector<std::string>& names);
  Errno remove_xattr(Ino ino, const std::string& name);
  void statfs(struct statvfs& out);

  // Open file descriptions: an inode without a name lives until its last one is released.
  void add_open(Ino ino);
  void release(Ino ino, bool was_writable);

  // Data. Reads and writes return a count or a negative errno.
  std::int64_t read(Ino ino, std::uint64_t offset, std::span<std::byte> out);
  // With flags.append, the offset is the size at that moment. `end` receives the offset after the last byte written.
  std::int64_t write(Ino ino, std::uint64_t offset, std::span<const std::byte> in, WriteFlags flags,
                     std::uint64_t* end = nullptr);
  // The bytes that were just written there are also at `position` of the store, which is readable as long as the file.
  // Whole blocks of them leave memory.
  void keep_in_store(Ino ino, std::uint64_t offset, std::uint64_t length, const ByteStore& store,
                     std::uint64_t position);
  Errno truncate(Ino ino, std::uint64_t size);
  Errno fallocate(Ino ino, int mode, std::uint64_t offset, std::uint64_t length);
  std::int64_t seek(Ino ino, std::uint64_t offset, int whence);  // SEEK_DATA, SEEK_HOLE, SEEK_END (offset 0: the size)
  Errno fsync(Ino ino, bool datasync);
  Errno sync();
  Errno sync_file_range(Ino ino, std::uint64_t offset, std::uint64_t length, unsigned flags);

  // Everything so far is durable and is the starting state (crashcut_barrier).
  void make_durable();

  // Locks between owners. POSIX locks as in fcntl(2): l_type F_RDLCK, F_WRLCK, F_UNLCK; start and length
  // already absolute. They never wait: -EAGAIN says that the caller would have to wait.
  Errno posix_lock(Ino ino, std::uint64_t owner, const struct flock& lock);
  Errno posix_test_lock(Ino ino, std::uint64_t owner, struct flock& lock);
  Errno flock(Ino ino, std::uint64_t owner, int operation);
  void drop_locks(Ino ino, std::uint64_t owner);

  std::uint32_t sector_bytes() const;
  std::uint32_t block_bytes() const;

 private:
  struct Inode;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crashcut::fusefs
