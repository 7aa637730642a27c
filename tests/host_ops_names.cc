// Random calls on names.
#include <linux/fs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/host_differential.h"

namespace crashcut::fusefs {
namespace {

void stat(Differential& d) {
  int dir = d.dir_slot();
  std::string path = d.path();
  int flags = d.one_of<int>({0, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, 1});
  d.both("stat " + place_of(dir, path) + std::to_string(flags), [=](System& system) {
    struct stat stat {};
    std::int64_t result = system.stat(system.dir(dir), path, stat, flags);
    return result < 0 ? describe(result) : describe(stat);
  });
}

void access(Differential& d) {
  int dir = d.dir_slot();
  std::string path = d.path();
  int mask = static_cast<int>(d.pick(9));
  d.both("access " + place_of(dir, path) + std::to_string(mask),
         [=](System& system) { return describe(system.access(system.dir(dir), path, mask)); });
}

void mkdir(Differential& d) {
  int dir = d.dir_slot();
  std::string path = d.path();
  mode_t mode = d.mode() | (d.chance(80) ? 0700 : 0);
  d.both("mkdir " + place_of(dir, path) + to_octal(mode),
         [=](System& system) { return describe(system.mkdir(system.dir(dir), path, mode)); });
}

void mknod(Differential& d) {
  int dir = d.dir_slot();
  std::string path = d.path();
  mode_t type = d.one_of<mode_t>({0, S_IFREG, S_IFIFO, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK, S_IFDIR, S_IFLNK});
  if ((type == S_IFCHR || type == S_IFBLK) && !host_abilities().makes_devices) type = S_IFIFO;
  mode_t mode = d.mode() | type;
  dev_t rdev = d.chance(70) ? makedev(240, d.pick(300)) : 0;  // 240 is for experiments: nothing lies behind it
  d.both("mknod " + place_of(dir, path) + to_octal(mode),
         [=](System& system) { return describe(system.mknod(system.dir(dir), path, mode, rdev)); });
}

void unlink(Differential& d) {
  int dir = d.dir_slot();
  std::string path = d.path();
  int flags = d.one_of<int>({0, 0, AT_REMOVEDIR, 1});
  d.both("unlink " + place_of(dir, path) + std::to_string(flags),
         [=](System& system) { return describe(system.unlink(system.dir(dir), path, flags)); });
}

void link(Differential& d) {
  int from_dir = d.dir_slot();
  int to_dir = d.dir_slot();
  std::string from = d.path();
  std::string to = d.path();
  int flags = d.one_of<int>({0, 0, AT_SYMLINK_FOLLOW, 2});
  if (d.is_outside(from_dir, from) || d.is_outside(to_dir, to)) return;
  d.both("link " + place_of(from_dir, from) + place_of(to_dir, to) + std::to_string(flags), [=](System& system) {
    return describe(system.link(system.dir(from_dir), from, system.dir(to_dir), to, flags));
  });
}

void symlink(Differential& d) {
  int dir = d.dir_slot();
  std::string target = d.path();
  std::string path = d.path();
  d.both("symlink '" + target + "' " + place_of(dir, path),
         [=](System& system) { return describe(system.symlink(target, system.dir(dir), path)); });
}

void readlink(Differential& d) {
  int dir = d.dir_slot();
  std::string path = d.path();
  std::size_t room = d.pick(6);
  d.both("readlink " + place_of(dir, path) + std::to_string(room), [=](System& system) {
    std::string target(room, '\0');
    std::int64_t result = system.readlink(system.dir(dir), path, target);
    return result < 0 ? describe(result) : target;
  });
}

void rename(Differential& d) {
  int from_dir = d.dir_slot();
  int to_dir = d.dir_slot();
  std::string from = d.path();
  std::string to = d.path();
  auto flags = d.one_of<unsigned>({0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_NOREPLACE | RENAME_EXCHANGE, 8});
  if (d.is_outside(from_dir, from) || d.is_outside(to_dir, to)) return;
  d.both("rename " + place_of(from_dir, from) + place_of(to_dir, to) + std::to_string(flags), [=](System& system) {
    return describe(system.rename(system.dir(from_dir), from, system.dir(to_dir), to, flags));
  });
}

void readdir(Differential& d) {
  int slot = d.slot();
  std::size_t buffer_bytes = 280 + d.pick(2000);
  if (!d.is_directory(slot)) return;
  d.both("readdir " + std::to_string(slot),
         [=](System& system) { return join_sorted(list_directory(system, system.fd(slot), buffer_bytes)); });
}

void where(Differential& d) {
  d.both("getcwd", [](System& system) {
    std::string path;
    std::int64_t result = system.getcwd(path);
    return result < 0 ? describe(result) : path;
  });
}

void chdir(Differential& d) {
  std::string path = d.chance(30) ? ".." : d.path();
  d.both("chdir '" + path + "'", [=](System& system) { return describe(system.chdir(path)); });
  where(d);
}

void fchdir(Differential& d) {
  int slot = d.slot();
  d.both("fchdir " + std::to_string(slot), [=](System& system) { return describe(system.fchdir(system.fd(slot))); });
  where(d);
}

void statfs(Differential& d) {
  std::string path = d.path();
  d.both("statfs '" + path + "'", [=](System& system) {
    struct statvfs stat {};
    std::int64_t result = system.statfs(path, stat);
    if (result < 0) return describe(result);
    const bool is_sane = stat.f_frsize > 0 && stat.f_bavail <= stat.f_bfree && stat.f_bfree <= stat.f_blocks &&
                         stat.f_ffree <= stat.f_files && stat.f_files > 0;
    return "block " + std::to_string(stat.f_bsize) + " name " + std::to_string(stat.f_namemax) +
           (is_sane ? " sane" : " not sane");
  });
}

constexpr HostOp kNameOps[] = {stat,     access, mkdir,  mkdir,  mknod,   mknod, unlink, link,  symlink,
                               readlink, rename, rename, rename, readdir, chdir, fchdir, statfs};

}  // namespace

std::span<const HostOp> name_ops() { return kNameOps; }

}  // namespace crashcut::fusefs
