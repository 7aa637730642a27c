// Process::Impl: what the files that implement Process share.
#pragma once

#include <cerrno>

#include "fusefs/access.h"
#include "fusefs/path_walk.h"
#include "fusefs/process.h"

namespace crashcut::fusefs {

// An open file description. Descriptors that dup made share one. If another thread closes the descriptor during a call,
// the call keeps the description, as in the kernel.
class Description {
 public:
  Description(Filesystem& filesystem, Ino ino, int flags, Effects* effects);
  ~Description();
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  bool is_path_only() const { return flags & O_PATH; }
  bool is_readable() const;
  bool is_writable() const;
  // Of flock and OFD locks.
  std::uint64_t lock_owner() const { return reinterpret_cast<std::uintptr_t>(this); }
  void touch(Effects::Part part) const {
    if (effects_) effects_->touch(Effects::Thing::kDescription, part, name);
  }

  void report_block() const {
    if (effects_) effects_->blocked_by(Effects::lock_of_description(name));
  }

  const std::uint64_t name;  // the same in all executions, for effects
  const Ino ino;
  const mode_t type;
  int flags;
  std::uint64_t offset = 0;  // of a directory: a readdir cookie
  bool position_is_held = false;
  bool is_linkable = false;  // a file without a name that may be given one: O_TMPFILE without O_EXCL

 private:
  Filesystem& filesystem_;
  Effects* effects_;
};
using DescriptionRef = std::shared_ptr<Description>;

// The kernel's f_pos_lock: two threads that read or write at one description's offset go one after the other.
class PositionHold {
 public:
  explicit PositionHold(Description& file) : file_(file), is_mine_(!file.position_is_held) {
    file_.touch(Effects::kBoth);
    if (!is_mine_) file_.report_block();
    file_.position_is_held = true;
  }
  ~PositionHold() {
    if (is_mine_) file_.position_is_held = false;
  }
  PositionHold(const PositionHold&) = delete;
  PositionHold& operator=(const PositionHold&) = delete;
  explicit operator bool() const { return is_mine_; }

 private:
  Description& file_;
  bool is_mine_;
};

struct Process::Impl {
  explicit Impl(Setup setup_in);

  struct Slot {
    DescriptionRef file;
    bool cloexec;
  };

  DescriptionRef open_description(Ino ino, int flags) {
    return std::make_shared<Description>(filesystem, ino, flags, setup.effects);
  }
  void touch_effect(Effects::Thing thing, Effects::Part part, std::uint64_t a = 0) const {
    if (setup.effects) setup.effects->touch(thing, part, a);
  }

  // Descriptors.
  DescriptionRef any(int fd) const;   // null if owns(fd) is false
  DescriptionRef file(int fd) const;  // null also if it is O_PATH
  int reserve(int lowest);
  void unreserve(int fd);
  int install(int fd, DescriptionRef description, bool cloexec);
  // Like close, but the number stays reserved.
  void drop(int fd);

  // Paths. `flags` may hold AT_SYMLINK_NOFOLLOW and AT_EMPTY_PATH.
  Errno start_of(int dirfd, std::string_view path, Ino& out) const;
  Errno find(int dirfd, std::string_view path, int flags, Ino& out);
  Errno find_parent(int dirfd, std::string_view path, Place& out);
  Errno find_new_name(int dirfd, std::string_view path, bool for_directory, Place& out);
  Errno check_new_name(const Place& place, bool for_directory);
  // The outcome of a call with two paths, from the outcomes of both.
  Errno join_outcomes(Errno from, const std::function<Errno()>& resolve_to);

  // Parts of open.
  Errno open_place(Place& place, int flags, mode_t mode);
  Errno may_open(const Place& place, int flags) const;
  Errno create_file(Place& place, mode_t mode);
  Errno make_tmpfile(Place& place, mode_t mode);

  // Parts of data calls.
  std::int64_t read_at(const Description& file, std::span<const iovec> out, std::uint64_t offset);
  std::int64_t write_at(const Description& file, std::span<const iovec> in, std::uint64_t offset, int rwf_flags,
                        std::uint64_t* end);
  bool is_aligned(std::span<const iovec> parts, std::uint64_t offset) const;
  std::uint64_t bytes_max() const;
  Errno drop_privileges(Ino ino);
  Errno truncate(Ino ino, off_t size);

  Errno change_mode(Ino ino, mode_t mode);
  Errno change_owner(Ino ino, uid_t uid, gid_t gid);
  Errno find_for_xattr(int fd, std::string_view path, bool follow, Ino& out);
  Errno check_nameless(Description& file);
  Errno check_xattr(Ino ino, const std::string& name, bool for_change);

  std::uint64_t lock_owner() const { return reinterpret_cast<std::uintptr_t>(this); }

  Setup setup;
  Filesystem& filesystem;
  Access access;
  PathWalk walk;
  std::string outside_from;
  DescriptionRef cwd;  // null: outside
  std::map<int, Slot> slots;
};

}  // namespace crashcut::fusefs
