// Access: what a process may do to an inode, by its uid, gid and groups.
//
// Models: mode bits, the sticky bit and what protects files below it, ownership, the fate of setuid and setgid
//   bits. Does not model: ACLs, single capabilities. Source: fs/namei.c, fs/attr.c.
// Invariant: for uid 0 no attribute is read just to allow something, unless the StickyProtection asks for it: that
//   binds uid 0 too. In a crashed filesystem each such read is a decision, and would be a branch that the program
//   cannot see.
// Threads: none of its own.
#pragma once

#include <unistd.h>

#include <utility>

#include "fusefs/filesystem.h"
#include "fusefs/types.h"

namespace crashcut::fusefs {

class Access {
 public:
  Access(Filesystem& filesystem, Credentials who, const StickyProtection& protection)
      : filesystem_(filesystem), who_(std::move(who)), protection_(protection) {}

  const Credentials& who() const { return who_; }
  void become(Credentials who) { who_ = std::move(who); }
  bool is_root() const { return who_.uid == 0; }
  bool in_group(gid_t gid) const;

  // Each returns 0, or the errno that says why not. `mask` is made of R_OK, W_OK and X_OK.
  Errno check(Ino ino, int mask) const;
  Errno check_owner(Ino ino) const;
  Errno may_create(Ino dir) const;
  Errno may_delete(Ino dir, Ino victim) const;
  // The symlink that a path ends with.
  Errno may_follow(Ino dir, Ino link) const;
  // O_CREAT on a file that exists already.
  Errno may_reopen(Ino dir, Ino ino) const;
  Errno may_link(Ino ino) const;  // as the protected_hardlinks sysctl, which every distribution sets
  Errno may_chown(const Owner& now, uid_t uid, gid_t gid) const;

  // The setuid and setgid bits that a change of owner takes away. A write takes them away too, unless uid is 0.
  mode_t lost_privileges(const Owner& now) const;
  // Takes the setgid bit off `mode` if a new file in `dir` must not have it.
  Errno strip_setgid(Ino dir, mode_t& mode) const;

 private:
  bool grants(const Owner& now, int mask) const;

  Filesystem& filesystem_;
  Credentials who_;
  StickyProtection protection_;
};

}  // namespace crashcut::fusefs
