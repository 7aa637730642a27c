// Primitive: a kind of synchronisation object. To add one: a file in primitives/ and a line in primitives/table.cc.
//
// Every function sees accesses to one object of its kind. What it may look at: the object, and the other objects of
//   the same operation. Defaults are safe: without a reason, two accesses to one object do not commute.
//   enabled      whether the access can be executed now
//   apply        executes it and returns the result; negative below kMisuse: the program used the object wrongly
//   dependent    whether two executed accesses of two actors, next to each other in an execution, must keep their
//                order. Not asked: whether one disables the other, which State knows.
//   conflicting  whether there is a state in which they do not commute, disabling included. A superset of dependent
//   co_enabled   false only where no state enables both: then there is nothing to reverse
//   holds        whether the actor keeps others from the access until it takes a further step. Asked only where several
//                actors can do so at once without regard to each other: there one step less does not enable it
//   destroys     the verb after which the object is not to be used any more, and the verbs (a bit each)
//                of those that came to it before and may do so after it, too
#pragma once

#include <span>

#include "scheduler/state.h"

namespace crashcut::scheduler {

struct Primitive {
  const char* name;
  std::span<const char* const> verbs;
  bool (*enabled)(const State&, ActorId, const Operation&, const Access&);
  std::int64_t (*apply)(State&, ActorId, const Operation&, const Access&);
  bool (*dependent)(const Access&, const Access&);
  bool (*conflicting)(const Access&, const Access&);
  bool (*co_enabled)(const Access&, const Access&);
  bool (*holds)(const State&, ActorId, const Access&) = nullptr;
  struct Destruction {
    std::uint8_t verb = kNoVerb;
    std::uint32_t leaving = 0;
  } destroys{};
  static constexpr std::uint8_t kNoVerb = 0xff;
};

const Primitive& primitive_of(const Access& access);

// Safe defaults.
inline bool always_enabled(const State&, ActorId, const Operation&, const Access&) { return true; }
inline bool always(const Access&, const Access&) { return true; }

// Results of a program's mistakes.
inline constexpr std::int64_t kMisuse = -1000;
inline constexpr std::int64_t kUnlockByNonOwner = kMisuse - 1;
inline constexpr std::int64_t kUnlockOfUnlocked = kMisuse - 2;
inline constexpr std::int64_t kDestroyWhileLocked = kMisuse - 3;
inline constexpr std::int64_t kDestroyWhileWaitedFor = kMisuse - 4;
inline constexpr std::int64_t kJoinTwice = kMisuse - 5;
inline constexpr std::int64_t kJoinOfDetached = kMisuse - 6;
inline constexpr std::int64_t kDetachTwice = kMisuse - 7;
inline constexpr std::int64_t kWaitWithoutMutex = kMisuse - 8;
inline constexpr std::int64_t kFreeTwice = kMisuse - 9;
inline constexpr std::int64_t kFreeOfOther = kMisuse - 10;
inline constexpr std::int64_t kUseAfterFree = kMisuse - 11;
inline constexpr std::int64_t kUseAfterDestroy = kMisuse - 12;
// A clause: "unlocks a mutex that another thread holds". Empty for other results.
const char* misuse_text(std::int64_t result);

// The wake-up policy of an object that threads wait for.
enum Policy : std::int64_t { kArbitrary, kFifo, kLifo };

}  // namespace crashcut::scheduler
