// Effects: what a call looked at and what it changed, for a scheduler that asks which calls commute.
//
// A touch names a thing, or a range of it, and the call's part in it. The call is a source if other calls could notice
//   it there, and a target if it could notice other calls. Two calls must keep their order if the source of one meets
//   the target of the other. Otherwise they may be swapped: neither the running program nor a crash can tell.
// The running system's things: names, listings, sizes, bytes, attributes, descriptors, offsets. The disk's things: each
//   rule of the profile within its scope, so that swapping calls never changes which events persist before which. Rules
//   about the whole disk (there is one journal) are left out if the recording will be loosened: then it has the crashes
//   of both orders (Recorder::loosen).
// Times of files are left out: they do not pass for a scheduled program.
// Names: what calls make (inodes, descriptions) is numbered for each thread, not by the order of the calls.
#pragma once

#include <cstdint>
#include <string_view>

#include "fusefs/types.h"
#include "persist/hash.h"

namespace crashcut::fusefs {

class Effects {
 public:
  enum class Thing : std::uint8_t {
    // Of the running system. The first number is the inode, if nothing else is said.
    kName,         // an entry: the directory, a hash of the name
    kListing,      // all entries of a directory
    kAttributes,   // mode, owner, xattrs
    kLinks,        // how many names it has
    kSize,         // a range of where the file ends: a byte there is or is not part of it
    kBytes,        // a range
    kFileLocks,    // fcntl and flock
    kSpace,        // how many blocks are used
    kDescriptor,   // its number
    kNumbers,      // which numbers are free: the thread that asks
    kDescription,  // the offset and flags of an open file: its name
    kDirectory,    // the working directory of the process
    kUmask,
    // Of the disk.
    kRule,      // a rule of the profile, what it is about
    kLocation,  // its kind, inode and index: the order of its writes
    kDurable,   // the starting state ends
    kBarrier,   // a sync persists before every later event
    kStarted,   // writeback that was started: its events come before what the journal takes next
    kPlaces,    // which blocks of the disk are free, where freed ones are reused at once
    kWriting,   // a range of files: what the recorder knows of their blocks, how a write persists
  };
  enum Part : std::uint8_t { kSource = 1, kTarget = 2, kBoth = 3 };

  virtual ~Effects() = default;
  virtual void touch(std::uint64_t key, Part part, std::uint64_t begin, std::uint64_t end) = 0;
  virtual Ino fresh_ino() = 0;
  virtual std::uint64_t fresh_name() = 0;
  // The thread that makes the call, and the step of the execution.
  struct Moment {
    std::uint32_t actor, step;
  };
  virtual Moment now() = 0;
  // Whether the recording will be loosened.
  virtual bool loosens() const = 0;
  // The call must wait until another call, which takes several steps, releases this lock. A write holds the lock of its
  // inode. A call that uses the offset of an open file holds the lock of that description.
  virtual void blocked_by(std::uint64_t lock) = 0;
  static std::uint64_t lock_of_inode(Ino ino) { return key(Thing::kWriting, static_cast<std::uint64_t>(ino), 0, 1); }
  static std::uint64_t lock_of_description(std::uint64_t name) { return key(Thing::kDescription, name, 0, 1); }

  void touch(Thing thing, Part part, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0) {
    touch(key(thing, a, b, c), part, 0, ~std::uint64_t{0});
  }
  void touch_writing(Ino ino, Part part) {
    touch(key(Thing::kWriting, 0, 0, 0), part, static_cast<std::uint64_t>(ino), static_cast<std::uint64_t>(ino) + 1);
  }
  void touch_size(Ino ino, Part part, std::uint64_t begin, std::uint64_t end) {
    touch(key(Thing::kSize, static_cast<std::uint64_t>(ino), 0, 0), part, begin, end);
  }
  void touch_bytes(Ino ino, Part part, std::uint64_t begin, std::uint64_t end) {
    if (begin < end) touch(key(Thing::kBytes, static_cast<std::uint64_t>(ino), 0, 0), part, begin, end);
  }

  static std::uint64_t key(Thing thing, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    return persist::mix(persist::mix(persist::mix(static_cast<std::uint64_t>(thing) + 1, a), b), c);
  }
};

}  // namespace crashcut::fusefs
