// Effects: what a call looked at and what it changed, for a scheduler that asks which calls commute.
//
// A touch names a thing, or a range of it, and the call's part in it: source where others could notice the call, target
//   where the call could notice others. Two calls must keep their order where the source of one meets the target of the
//   other; where nothing meets, they may be swapped, and neither the running program nor a crash can tell.
// The running system's things: names, listings, sizes, bytes, attributes, descriptors, offsets. The disk's things: each
//   rule of the profile within its scope, so that swapping calls never changes which events persist before which. Not
//   those rules that are about the whole disk, as that the journal is one, where the recording is to be loosened: it
//   has the crashes of both orders then (Recorder::loosen).
// Not among them: times of files, which do not pass for a scheduled program.
// Names: what calls make (inodes, descriptions) is numbered by whoever calls, not by the order of the calls.
#pragma once

#include <cstdint>
#include <string_view>

#include "fusefs/types.h"

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
    kNumbers,      // which numbers are free: who asks
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
  // Who makes the call, and at which step of the execution.
  struct Moment {
    std::uint32_t actor, step;
  };
  virtual Moment now() = 0;
  // Whether the recording will be loosened.
  virtual bool loosens() const = 0;
  // The call must wait until another that is under way in several steps gives this lock back: a write its inode's,
  // whoever uses an offset that of the open file.
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

  static std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
    hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccd;
    return hash ^ hash >> 32;
  }
  static std::uint64_t hash(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
    return hash;
  }
  static std::uint64_t key(Thing thing, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    return mix(mix(mix(static_cast<std::uint64_t>(thing) + 1, a), b), c);
  }
};

}  // namespace crashcut::fusefs
