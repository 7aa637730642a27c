// AddedLocks: code that runs as if it held one more mutex, to find out whether that mends the program
// (recovery/threads/mend.h).
//
// A section is code of one function, in one range of addresses or several. A thread that comes to an operation, or to
//   an access of instrumented code, there or in what is called from there, locks the mutex before it. It unlocks the
//   mutex before its next one elsewhere: in between, no other thread can tell.
// Addresses rise within a section. A thread that comes again to the address where it began begins anew: the section is
//   in a loop. A thread that comes to another address a second time has a loop in the section, or the compiler has
//   moved code: then it is not known where a lock in the source would begin and end (Control::is_added_lock_unclear).
// A mutex can also be taken early: before another mutex, which is locked at a given place. Where the thread locks it
//   later, nothing happens.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/operation.h"

namespace crashcut::scheduler::runtime {

// Addresses of code are those that calls return to.
struct AddedLock {
  std::uint64_t begin = 0, end = 0;
  std::uint32_t section = 0;  // ranges of the same section are one
  std::uint64_t mutex = 0;    // the program's mutex there; 0: one that the program does not have
  bool is_early = false;      // no range: the mutex is taken before the one that is locked at `begin`

  friend bool operator==(const AddedLock&, const AddedLock&) = default;
};

inline constexpr std::uint32_t kAddedLocksMost = 32;

// An actor's part.
struct AddedLockView {
  static constexpr std::uint32_t kNone = ~0u;
  std::uint32_t section = kNone;      // the one that it is in
  std::uint64_t first = 0, last = 0;  // addresses of it that the actor came to
  ObjectId mutex{};
  bool holds = false;           // the mutex was locked for this
  bool is_busy = false;         // it is being locked or unlocked
  std::vector<ObjectId> early;  // mutexes that were taken early, and not yet locked by the program
};

// The running actor is about to do an operation that is called from there, or an access.
void heed_added_locks(const void* caller, bool is_access);
// pthread_mutex_lock() of the running actor. True: it has the mutex already.
bool takes_early(ObjectId mutex, const void* caller);
// pthread_mutex_unlock() of the running actor.
void note_early_unlock(ObjectId mutex);

}  // namespace crashcut::scheduler::runtime
