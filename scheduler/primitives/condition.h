// A condition variable. Waiting is two steps: "enqueue" with the unlock of the mutex, "wake" with its lock; where threads
// are cancelled, or wait for the mutex in line, the lock comes after: a signal may come, then the cancellation, then the mutex.
// Object: a spurious wake-ups left, the rest as of waiters.h.
#pragma once

#include <cerrno>

#include "scheduler/primitive.h"
#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/waiters.h"

namespace crashcut::scheduler::condition {

enum Verb : std::uint8_t { kEnqueue, kWake, kTimedWake, kSignal, kBroadcast, kDestroy };
inline constexpr const char* kVerbs[] = {"enqueue", "wake", "timed wake", "signal", "broadcast", "destroy"};
inline constexpr std::int64_t kWokeForNothing = 1;

inline Access access(ObjectId condition, Verb verb) { return {condition, verb}; }

// It was destroyed before.
inline bool never_came(const Object& c, ActorId actor) { return c.is_destroyed && waiters::place_of(c, actor) >= c.second.size(); }

inline bool enabled(const State& state, ActorId actor, const Operation& operation, const Access& access) {
  if (access.verb != kWake && access.verb != kTimedWake) return true;
  const Object& c = state.object(access.object);
  if (never_came(c, actor)) return true;
  return waiters::may_wake(c, waiters::place_of(c, actor)) || c.a > 0 || timer::is_fired(state, operation) || cancellation::is_heeded(state, operation);
}

inline std::int64_t wake(Object& c, std::size_t place, bool is_fired, bool is_cancelled) {
  if (is_cancelled) return waiters::leave(c, place), ECANCELED;
  if (waiters::wake(c, place)) return 0;
  if (is_fired) return ETIMEDOUT;
  --c.a;
  return kWokeForNothing;
}

inline std::int64_t apply(State& state, ActorId actor, const Operation& operation, const Access& access) {
  Object& c = state.object(access.object);
  switch (access.verb) {
    case kEnqueue: waiters::enqueue(c, actor); return 0;
    case kSignal: waiters::signal(c); return 0;
    case kBroadcast: waiters::signal_all(c); return 0;
    case kDestroy: return waiters::has_sleeper(c) ? kDestroyWhileWaitedFor : 0;  // who is woken may leave later
    default: return never_came(c, actor) ? kUseAfterDestroy : wake(c, waiters::place_of(c, actor), timer::is_fired(state, operation), cancellation::is_heeded(state, operation));
  }
}

// Signals and broadcasts among themselves: each wakes as many as it would after the other.
inline bool dependent(const Access& x, const Access& y) {
  const auto signals = [](const Access& a) { return a.verb == kSignal || a.verb == kBroadcast; };
  return !(signals(x) && signals(y));
}

inline constexpr Primitive kPrimitive{"condition", kVerbs, enabled, apply, dependent, dependent, always, nullptr, {kDestroy, kWake, kTimedWake}};

}  // namespace crashcut::scheduler::condition
