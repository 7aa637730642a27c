// Call: one system call of the program, as the SIGSYS handler hands it to the model.
#pragma once

#include <climits>
#include <cstdint>

namespace crashcut::inprocess {

struct Call {
  long number;
  long a[6];
};

// Results that are not the kernel's: let the kernel do the call as it stands.
inline constexpr long kForward = LONG_MIN;

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

// Whether the kernel forgets that it did the call: a query, or a change that a restored image undoes.
bool is_traceless(const Call& call);
// Whether a call that the runtime does itself (signals, threads) changes what the kernel knows of the process.
bool changes_process(const Call& call);

// Whether a path cannot lead into the model: absolute, elsewhere.
bool surely_outside(long dirfd, const char* path);
// The modelled descriptor that a path through /proc/self/fd or /dev/fd names, or -1.
int descriptor_in(const char* path);

}  // namespace crashcut::inprocess
