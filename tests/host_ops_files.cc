// Random calls on descriptors, data and locks.
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/file.h>

#include <functional>

#include "tests/host_differential.h"

namespace crashcut::fusefs {
namespace {

// ---- descriptors ---------------------------------------------------------------------------------------------------

void close_slot(Differential& d, int slot) {
  d.both("close " + std::to_string(slot), [=](System& system) { return describe(system.close(slot)); });
}

void close(Differential& d) { close_slot(d, d.slot()); }

int open_flags(Differential& d) {
  int flags = d.one_of<int>({O_RDONLY, O_RDWR, O_RDWR, O_WRONLY});
  if (d.chance(70)) flags |= O_CREAT;
  for (int flag : {O_EXCL, O_TRUNC, O_APPEND, O_NOFOLLOW, O_DIRECTORY, O_SYNC, O_NOATIME, O_NONBLOCK, O_CLOEXEC})
    if (d.chance(6)) flags |= flag;
  if (d.chance(3)) flags |= O_TMPFILE;
  return d.chance(3) ? flags | O_PATH : flags;
}

void open(Differential& d) {
  auto slot = static_cast<int>(d.pick(kSlots));
  int dir = d.dir_slot();
  if (dir == slot) dir = -1;
  std::string path = d.path();
  int flags = open_flags(d);
  mode_t mode = d.mode();
  close_slot(d, slot);
  mode_t type = d.type_of(dir, path);
  bool is_special = S_ISFIFO(type) || S_ISCHR(type) || S_ISBLK(type);
  d.both(
      "open " + std::to_string(slot) + " " + place_of(dir, path) + to_octal(static_cast<mode_t>(flags)) + " " +
          to_octal(mode),
      [=](System& system) { return describe(system.open(slot, dir, path, flags, mode)); },
      is_special ? describe(-ENXIO) : "");
  d.both("flags", [=](System& system) { return to_octal(static_cast<mode_t>(system.get_flags(system.fd(slot)))); });
}

void dup(Differential& d) {
  int from = d.slot();
  int to = (from + 1) % kSlots;
  close_slot(d, to);
  d.both("dup " + std::to_string(from), [=](System& system) { return describe(system.dup(from, to)); });
}

void set_flags(Differential& d) {
  int slot = d.slot();
  int flags = d.one_of<int>({0, O_APPEND, O_NONBLOCK, O_NOATIME, O_APPEND | O_SYNC});
  d.both("set_flags " + std::to_string(slot) + " " + std::to_string(flags),
         [=](System& system) { return describe(system.set_flags(system.fd(slot), flags)); });
}

// ---- data ----------------------------------------------------------------------------------------------------------

void write(Differential& d) {
  int slot = d.slot();
  std::string bytes = d.bytes();
  d.both("write " + std::to_string(slot) + " " + std::to_string(bytes.size()),
         [=](System& system) { return describe(system.write(system.fd(slot), part_of(bytes))); });
}

void pwrite(Differential& d) {
  int slot = d.slot();
  std::string bytes = d.bytes();
  off_t offset = d.offset();
  int flags = d.one_of<int>({0, 0, 0, RWF_DSYNC, RWF_SYNC, RWF_APPEND, 1 << 20});
  if (offset < 0) flags = 0;
  d.both("pwrite " + std::to_string(slot) + " " + std::to_string(bytes.size()) + " at " + std::to_string(offset) +
             " flags " + std::to_string(flags),
         [=](System& system) { return describe(system.pwrite(system.fd(slot), part_of(bytes), offset, flags)); });
}

std::string describe_read(std::int64_t result, const std::string& bytes) {
  return describe(result) + " hash " + std::to_string(std::hash<std::string>{}(bytes));
}

void read(Differential& d) {
  int slot = d.slot();
  std::size_t count = d.pick(20000);
  if (d.is_directory(slot)) return;  // the host's offset after a listing is so high that it fails otherwise
  d.both("read " + std::to_string(slot) + " " + std::to_string(count), [=](System& system) {
    std::string bytes(count, '\0');
    std::int64_t result = system.read(system.fd(slot), part_of(bytes));
    return describe_read(result, bytes);
  });
}

void pread(Differential& d) {
  int slot = d.slot();
  std::size_t count = d.pick(20000);
  off_t offset = d.offset();
  d.both("pread " + std::to_string(slot) + " " + std::to_string(count) + " at " + std::to_string(offset),
         [=](System& system) {
           std::string bytes(count, '\0');
           std::int64_t result = system.pread(system.fd(slot), part_of(bytes), offset);
           return describe_read(result, bytes);
         });
}

void seek(Differential& d) {
  int slot = d.slot();
  int whence = d.one_of<int>({SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE, SEEK_DATA, SEEK_HOLE, 7});
  off_t offset = d.offset();
  if (whence == SEEK_CUR || whence == SEEK_END) offset -= 10000;
  if (d.is_directory(slot)) return;  // cookies differ
  const bool finds_holes = whence == SEEK_DATA || whence == SEEK_HOLE;
  d.both("seek " + std::to_string(slot) + " " + std::to_string(offset) + " whence " + std::to_string(whence),
         [=](System& system) {
           // An unwritten block that was read is data to SEEK_DATA for as long as the page cache holds it.
           if (finds_holes) system.drop_cache(system.fd(slot));
           return describe(system.seek(system.fd(slot), offset, whence));
         });
}

void ftruncate(Differential& d) {
  int slot = d.slot();
  off_t size = d.offset();
  d.both("ftruncate " + std::to_string(slot) + " " + std::to_string(size),
         [=](System& system) { return describe(system.ftruncate(system.fd(slot), size)); });
}

void truncate(Differential& d) {
  std::string path = d.path();
  off_t size = d.offset();
  d.both("truncate '" + path + "' " + std::to_string(size),
         [=](System& system) { return describe(system.truncate(path, size)); });
}

void fallocate(Differential& d) {
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  int slot = d.slot();
  int mode = d.one_of<int>({0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
                            kPunch, kPunch, FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_PUNCH_HOLE,
                            FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_UNSHARE_RANGE});
  off_t offset = d.offset();
  off_t length = d.offset();
  d.both("fallocate " + std::to_string(slot) + " mode " + std::to_string(mode) + " " + std::to_string(offset) + "+" +
             std::to_string(length),
         [=](System& system) { return describe(system.fallocate(system.fd(slot), mode, offset, length)); });
}

// ---- locks ---------------------------------------------------------------------------------------------------------

struct flock random_range(Differential& d) {
  struct flock range {};
  range.l_type = d.one_of<short>({F_RDLCK, F_WRLCK, F_WRLCK, F_UNLCK, 9});
  range.l_whence = d.one_of<short>({SEEK_SET, SEEK_SET, SEEK_CUR, SEEK_END, 8});
  range.l_start = static_cast<off_t>(d.pick(60)) - (d.chance(10) ? 30 : 0);
  range.l_len = d.chance(20) ? 0 : static_cast<off_t>(d.pick(40)) - (d.chance(20) ? 20 : 0);
  return range;
}

std::string describe_lock(const struct flock& lock) {
  // Whose it is: nobody's number where it belongs to a description.
  return " type " + std::to_string(lock.l_type) + " whence " + std::to_string(lock.l_whence) + " " +
         std::to_string(lock.l_start) + "+" + std::to_string(lock.l_len) +
         (lock.l_pid == -1 ? " of a description" : "");
}

void lock(Differential& d) {
  int slot = d.slot();
  struct flock range = random_range(d);
  if (range.l_whence == SEEK_CUR && d.is_directory(slot)) return;  // cookies differ
  // On the host the two users are one process, to which a process's locks belong.
  int command = d.has_one_user() ? d.one_of<int>({F_OFD_SETLK, F_OFD_SETLK, F_OFD_GETLK, F_SETLK, F_SETLK, F_GETLK})
                                 : d.one_of<int>({F_OFD_SETLK, F_OFD_SETLK, F_OFD_GETLK});
  d.both("lock " + std::to_string(slot) + " command " + std::to_string(command) + describe_lock(range),
         [=](System& system) {
           struct flock lock = range;
           std::int64_t result = system.lock(system.fd(slot), command, lock);
           return describe(result) + describe_lock(lock);
         });
}

void flock(Differential& d) {
  int slot = d.slot();
  int operation = d.one_of<int>({LOCK_SH, LOCK_EX, LOCK_EX, LOCK_UN, 77}) | LOCK_NB;
  d.both("flock " + std::to_string(slot) + " " + std::to_string(operation),
         [=](System& system) { return describe(system.flock(system.fd(slot), operation)); });
}

constexpr HostOp kFileOps[] = {open,     open,      open,      open, open,  close, dup,  set_flags, write,
                               write,    pwrite,    pwrite,    read, pread, seek,  seek, seek,      ftruncate,
                               truncate, fallocate, fallocate, lock, lock,  lock,  flock};

}  // namespace

std::span<const HostOp> file_ops() { return kFileOps; }

}  // namespace crashcut::fusefs
