#include "fusefs/access.h"

#include <algorithm>
#include <cerrno>

namespace crashcut::fusefs {
namespace {

constexpr mode_t kGroupExecSetgid = S_ISGID | S_IXGRP;

bool is_group_exec_setgid(mode_t mode) { return (mode & kGroupExecSetgid) == kGroupExecSetgid; }

}  // namespace

bool Access::in_group(gid_t gid) const {
  return gid == who_.gid || std::find(who_.groups.begin(), who_.groups.end(), gid) != who_.groups.end();
}

bool Access::grants(const Owner& now, int mask) const {
  unsigned shift = now.uid == who_.uid ? 6 : in_group(now.gid) ? 3 : 0;
  return (static_cast<int>(now.mode >> shift) & mask) == mask;
}

Errno Access::check(Ino ino, int mask) const {
  if (mask == 0) return 0;
  // Even uid 0 executes only what somebody may execute; directories it may always search.
  bool root_passes = !(mask & X_OK) || S_ISDIR(filesystem_.type(ino));
  if (is_root() && root_passes) return 0;
  Owner now;
  if (Errno error = filesystem_.get_owner(ino, now)) return error;
  bool allowed = is_root() ? (now.mode & 0111) != 0 : grants(now, mask);
  return allowed ? 0 : -EACCES;
}

Errno Access::check_owner(Ino ino) const {
  if (is_root()) return 0;
  Owner now;
  if (Errno error = filesystem_.get_owner(ino, now)) return error;
  return now.uid == who_.uid ? 0 : -EPERM;
}

Errno Access::may_create(Ino dir) const { return check(dir, W_OK | X_OK); }

Errno Access::may_delete(Ino dir, Ino victim) const {
  if (is_root()) return 0;
  if (Errno error = check(dir, W_OK | X_OK)) return error;
  Owner parent;
  if (Errno error = filesystem_.get_owner(dir, parent)) return error;
  bool anyone = !(parent.mode & S_ISVTX) || parent.uid == who_.uid;
  return anyone ? 0 : check_owner(victim);
}

// may_follow_link()
Errno Access::may_follow(Ino dir, Ino link) const {
  if (!protection_.symlinks) return 0;
  Owner now;
  if (Errno error = filesystem_.get_owner(link, now)) return error;
  if (now.uid == who_.uid) return 0;
  Owner parent;
  if (Errno error = filesystem_.get_owner(dir, parent)) return error;
  constexpr mode_t kShared = S_ISVTX | S_IWOTH;
  return (parent.mode & kShared) == kShared && parent.uid != now.uid ? -EACCES : 0;
}

// may_create_in_sticky()
Errno Access::may_reopen(Ino dir, Ino ino) const {
  const mode_t type = filesystem_.type(ino);
  const int level = S_ISREG(type) ? protection_.regular : S_ISFIFO(type) ? protection_.fifos : 1;
  if (level == 0) return 0;
  Owner now;
  if (Errno error = filesystem_.get_owner(ino, now)) return error;
  if (now.uid == who_.uid) return 0;
  Owner parent;
  if (Errno error = filesystem_.get_owner(dir, parent)) return error;
  if (!(parent.mode & S_ISVTX) || parent.uid == now.uid) return 0;
  const bool is_shared = (parent.mode & S_IWOTH) || ((parent.mode & S_IWGRP) && level >= 2);
  return is_shared ? -EACCES : 0;
}

Errno Access::may_link(Ino ino) const {
  if (is_root()) return 0;
  Owner now;
  if (Errno error = filesystem_.get_owner(ino, now)) return error;
  bool harmless = S_ISREG(now.mode) && !(now.mode & S_ISUID) && !is_group_exec_setgid(now.mode);
  bool allowed = now.uid == who_.uid || (harmless && grants(now, R_OK | W_OK));
  return allowed ? 0 : -EPERM;
}

Errno Access::may_chown(const Owner& now, uid_t uid, gid_t gid) const {
  if (is_root()) return 0;
  bool owner = now.uid == who_.uid;
  bool uid_allowed = uid == static_cast<uid_t>(-1) || (owner && uid == now.uid);
  bool gid_allowed = gid == static_cast<gid_t>(-1) || (owner && (in_group(gid) || gid == now.gid));
  return uid_allowed && gid_allowed ? 0 : -EPERM;
}

mode_t Access::lost_privileges(const Owner& now) const {
  mode_t lost = now.mode & S_ISUID;
  bool keeps_setgid = !(now.mode & S_IXGRP) && (is_root() || in_group(now.gid));
  return keeps_setgid ? lost : lost | (now.mode & S_ISGID);
}

Errno Access::strip_setgid(Ino dir, mode_t& mode) const {
  if (is_root() || !is_group_exec_setgid(mode)) return 0;
  Owner parent;
  if (Errno error = filesystem_.get_owner(dir, parent)) return error;
  if ((parent.mode & S_ISGID) && !in_group(parent.gid)) mode &= ~mode_t{S_ISGID};
  return 0;
}

}  // namespace crashcut::fusefs
