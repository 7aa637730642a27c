// Random calls on attributes.
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/host_differential.h"

namespace crashcut::fusefs {
namespace {

void chmod(Differential& d) {
  int dir = d.dir_slot();
  std::string path = d.path();
  mode_t mode = d.mode();
  d.both("chmod " + place_of(dir, path) + to_octal(mode),
         [=](System& system) { return describe(system.chmod(system.dir(dir), path, mode)); });
}

void fchmod(Differential& d) {
  int slot = d.slot();
  mode_t mode = d.mode();
  d.both("fchmod " + std::to_string(slot) + " " + to_octal(mode),
         [=](System& system) { return describe(system.fchmod(system.fd(slot), mode)); });
}

void chown(Differential& d) {
  if (::geteuid() != 0 && d.chance(90)) return;
  int dir = d.dir_slot();
  std::string path = d.path();
  auto uid = d.one_of<uid_t>({0, kNobody, static_cast<uid_t>(-1)});
  auto gid = d.one_of<gid_t>({0, kNobody, 7, static_cast<gid_t>(-1)});
  int flags = d.one_of<int>({0, AT_SYMLINK_NOFOLLOW});
  d.both("chown " + place_of(dir, path) + std::to_string(uid) + ":" + std::to_string(gid),
         [=](System& system) { return describe(system.chown(system.dir(dir), path, uid, gid, flags)); });
}

void utimens(Differential& d) {
  int dir = d.dir_slot();
  std::string path = d.path();
  auto first = d.one_of<long>({5, UTIME_NOW, UTIME_OMIT, -1});
  auto second = d.chance(50) ? first : d.one_of<long>({5, UTIME_NOW, UTIME_OMIT});
  int flags = d.one_of<int>({0, 0, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, 1});
  d.both("utimens " + place_of(dir, path) + std::to_string(first) + " " + std::to_string(second) + " flags " +
             std::to_string(flags),
         [=](System& system) {
           timespec times[2] = {{1, first}, {2, second}};
           return describe(system.utimens(system.dir(dir), path, times, flags));
         });
  // What was asked for exactly is there exactly.
  d.both("times " + place_of(dir, path), [=](System& system) {
    struct stat stat {};
    std::int64_t result = system.stat(system.dir(dir), path, stat, AT_SYMLINK_NOFOLLOW);
    auto is_given = [](const timespec& time) { return time.tv_nsec == 5 && time.tv_sec <= 2; };
    if (result < 0) return describe(result);
    return std::string(is_given(stat.st_atim) ? "atime given" : "") + (is_given(stat.st_mtim) ? " mtime given" : "");
  });
}

// ---- extended attributes, by descriptor or by path ------------------------------------------------------------------

struct Target {
  int slot;
  std::string path;  // empty: the slot
  bool follow;
};

Target random_target(Differential& d) {
  Target target{d.slot(), d.chance(50) ? d.path() : "", d.chance(70)};
  return target;
}

std::string in_words(const Target& target) {
  return (target.path.empty() ? std::to_string(target.slot) : "'" + target.path + "'") +
         (target.follow ? " " : " itself ");
}

std::string xattr_name(Differential& d) {
  if (d.chance(80)) return d.one_of<const char*>({"user.a", "user.b", "user.c"});
  return d.one_of<const char*>({"user.", "other.a", "trusted.a", "security.a", "", "nothing"});
}

void set_xattr(Differential& d) {
  Target target = random_target(d);
  std::string name = xattr_name(d);
  std::string value(d.pick(100), static_cast<char>('a' + d.pick(26)));
  int flags = d.one_of<int>({0, 0, XATTR_CREATE, XATTR_REPLACE, 8});
  d.both("set_xattr " + in_words(target) + "'" + name + "' " + std::to_string(flags), [=](System& system) {
    return describe(system.set_xattr(system.fd(target.slot), target.path, target.follow, name, value, flags));
  });
}

void get_xattr(Differential& d) {
  Target target = random_target(d);
  std::string name = xattr_name(d);
  d.both("get_xattr " + in_words(target) + "'" + name + "'", [=](System& system) {
    std::string value;
    std::int64_t result = system.get_xattr(system.fd(target.slot), target.path, target.follow, name, value);
    return describe(result) + (result < 0 ? "" : value);
  });
  d.both("list_xattr " + in_words(target),
         [=](System& system) { return list_user_xattrs(system, system.fd(target.slot), target.path, target.follow); });
}

void remove_xattr(Differential& d) {
  Target target = random_target(d);
  std::string name = xattr_name(d);
  d.both("remove_xattr " + in_words(target) + "'" + name + "'", [=](System& system) {
    return describe(system.remove_xattr(system.fd(target.slot), target.path, target.follow, name));
  });
}

constexpr HostOp kAttributeOps[] = {chmod,     chmod,     fchmod,    chown,       utimens,
                                    set_xattr, set_xattr, get_xattr, remove_xattr};

}  // namespace

std::span<const HostOp> attribute_ops() { return kAttributeOps; }

}  // namespace crashcut::fusefs
