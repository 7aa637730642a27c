// Readers and two writers (the McMini paper, section 5.4): any number of readers, or the one writer, or the other.
// Object: a readers, b which writer is in (1 or 2) or 0.
#pragma once

#include "scheduler/primitive.h"

namespace crashcut::scheduler::two_writers {

enum Verb : std::uint8_t { kRead, kWriteFirst, kWriteSecond, kReadDone, kWriteDone };
inline constexpr const char* kVerbs[] = {"read", "write 1", "write 2", "read done", "write done"};

inline Access access(ObjectId lock, Verb verb) { return {lock, verb}; }

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  const Object& l = state.object(access.object);
  switch (access.verb) {
    case kRead: return l.b == 0;
    case kWriteFirst:
    case kWriteSecond: return l.b == 0 && l.a == 0;
    default: return true;
  }
}

inline std::int64_t apply(State& state, ActorId, const Operation&, const Access& access) {
  Object& l = state.object(access.object);
  switch (access.verb) {
    case kRead: ++l.a; return 0;
    case kWriteFirst: l.b = 1; return 0;
    case kWriteSecond: l.b = 2; return 0;
    case kReadDone: return l.a == 0 ? kUnlockOfUnlocked : (--l.a, 0);
    default: return l.b == 0 ? kUnlockOfUnlocked : (l.b = 0, 0);
  }
}

// Readers are counted, in any order.
inline bool dependent(const Access& x, const Access& y) {
  const auto reads = [](const Access& a) { return a.verb == kRead || (a.verb == kReadDone && a.result == 0); };
  return !(reads(x) && reads(y));
}

// Entering needs the writer to be out.
inline bool co_enabled(const Access& x, const Access& y) {
  const auto enters = [](const Access& a) { return a.verb <= kWriteSecond; };
  const auto leaves = [](const Access& a) { return a.verb == kWriteDone && a.result == 0; };
  return !(enters(x) && leaves(y)) && !(enters(y) && leaves(x));
}

inline constexpr Primitive kPrimitive{"two-writers lock", kVerbs, enabled, apply, dependent, dependent, co_enabled};

}  // namespace crashcut::scheduler::two_writers
