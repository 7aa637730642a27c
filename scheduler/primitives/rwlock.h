// A reader-writer lock. Object: a the preference, b writer + 1 or 0; list the readers, second those who wait, where
// a preference looks at them: a preferred reader or writer first takes the step "arrive".
#pragma once

#include <algorithm>
#include <cerrno>

#include "scheduler/primitive.h"
#include "scheduler/primitives/timer.h"

namespace crashcut::scheduler::rwlock {

enum Verb : std::uint8_t { kRead, kWrite, kTryRead, kTryWrite, kTimedRead, kTimedWrite, kUnlock, kDestroy, kArrive };
inline constexpr const char* kVerbs[] = {"rdlock", "wrlock", "tryrdlock", "trywrlock", "timedrdlock", "timedwrlock", "unlock", "destroy", "arrive"};
enum Preference : std::int64_t { kNone, kReaders, kWriters };
enum Unlocked : std::int64_t { kWasReader, kWasWriter };

inline Access access(ObjectId lock, Verb verb) { return {lock, verb}; }

inline bool is_write(const Access& x) { return x.verb == kWrite || x.verb == kTryWrite || x.verb == kTimedWrite; }
inline bool is_read(const Access& x) { return x.verb == kRead || x.verb == kTryRead || x.verb == kTimedRead; }

inline bool can_take(const Object& l, const Access& access) {
  const bool held_back = !l.second.empty() && (is_write(access) ? l.a == kReaders : l.a == kWriters);
  return l.b == 0 && !held_back && (!is_write(access) || l.list.empty());
}

inline bool enabled(const State& state, ActorId, const Operation& operation, const Access& access) {
  switch (access.verb) {
    case kRead:
    case kWrite: return can_take(state.object(access.object), access);
    case kTimedRead:
    case kTimedWrite: return can_take(state.object(access.object), access) || timer::is_fired(state, operation);
    default: return true;
  }
}

inline std::int64_t unlock(Object& l, std::int64_t actor) {
  if (l.b == actor + 1) return l.b = 0, kWasWriter;
  const auto it = std::find(l.list.begin(), l.list.end(), actor);
  if (it == l.list.end()) return l.b == 0 && l.list.empty() ? kUnlockOfUnlocked : kUnlockByNonOwner;
  l.list.erase(it);
  return kWasReader;
}

inline std::int64_t apply(State& state, ActorId actor, const Operation&, const Access& access) {
  Object& l = state.object(access.object);
  const std::int64_t self = index(actor);
  if (access.verb == kArrive) return l.second.push_back(self), 0;
  if (access.verb == kUnlock) return unlock(l, self);
  if (access.verb == kDestroy) return l.b == 0 && l.list.empty() ? 0 : kDestroyWhileLocked;
  std::erase(l.second, self);
  if (!can_take(l, access)) return access.verb == kTryRead || access.verb == kTryWrite ? EBUSY : ETIMEDOUT;
  if (is_write(access)) {
    l.b = self + 1;
  } else {
    l.list.insert(std::upper_bound(l.list.begin(), l.list.end(), self), self);
  }
  return 0;
}

// Readers come, stay and go without regard to each other: a reader's step needs no writer, and changes which readers
// there are. "arrive" is not told apart by side, so it stays dependent.
inline bool is_readers(const Access& x) { return (is_read(x) && x.result == 0) || (x.verb == kUnlock && x.result == kWasReader); }
inline bool dependent(const Access& x, const Access& y) {
  // Two that found it taken and left have changed nothing.
  return !(is_readers(x) && is_readers(y)) && !(x.result == EBUSY && y.result == EBUSY);
}

// Who waits for the lock is enabled while no writer holds it.
inline bool co_enabled(const Access& x, const Access& y) {
  const auto waits = [](const Access& a) { return a.verb == kRead || a.verb == kWrite; };
  const auto frees = [](const Access& a) { return a.verb == kUnlock && a.result == kWasWriter; };
  return !(waits(x) && frees(y)) && !(waits(y) && frees(x));
}

inline constexpr Primitive kPrimitive{"rwlock", kVerbs, enabled, apply, dependent, dependent, co_enabled};

}  // namespace crashcut::scheduler::rwlock
