// The system calls that the model of files does, and when.
#pragma once

#include <cstdint>

#include "inject/call.h"

namespace crashcut::inprocess {

using inject::Call;
using inject::kForward;

using CallFunction = long (*)(Call&);

// What must hold for a call to be the model's business; checked before its lock is taken.
enum class Filter : std::uint8_t {
  kAlways,
  kFd,          // a[0] is a modelled descriptor
  kEitherFd,    // a[0] or a[1] is (sendfile), or a[2] (copy_file_range)
  kPath,        // a[0] is a path that may lead into the model
  kAt,          // a[0] and a[1] are a directory and a path
  kTwoPaths,    // a[0] and a[1]
  kTwoAts,      // a[0] and a[1], a[2] and a[3]
  kPathSecond,  // symlink: a[1]
  kAtSecond,    // symlinkat: a[1] and a[2]
  kMapFd,       // a[4] is a modelled descriptor, or the new mapping may take the place of one
  kMapped,      // a[0] and a[1], address and length, may reach into a mapping of a modelled file
};

struct CallEntry {
  CallFunction function = nullptr;
  Filter filter = Filter::kAlways;
  const char* name = nullptr;
};

inline constexpr int kCallsMost = 512;

// The table that binds numbers to functions; entry.function is null where the kernel does the call.
const CallEntry& call_entry(long number);

// Whether a path cannot lead into the model: absolute, elsewhere.
bool surely_outside(long dirfd, const char* path);
// The modelled descriptor that a path through /proc/self/fd or /dev/fd names, or -1.
int descriptor_in(const char* path);

}  // namespace crashcut::inprocess
