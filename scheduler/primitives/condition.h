// A condition variable. Waiting is two steps: "enqueue" with the unlock of the mutex, "wake" with its lock; where threads
// are cancelled the lock is a third, as a signal may come, then the cancellation, then the mutex.
// Object: a spurious wake-ups left, b signals so far, c the policy. list holds the waiters as they came, then the
// numbers of signals that nobody has taken yet; second holds, a waiter, the first signal that it may take, or, below 0, that
// it was woken: by all (kByAll) or by the signal kBySignal - number.
#pragma once

#include <algorithm>
#include <cerrno>

#include "scheduler/primitive.h"
#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/timer.h"

namespace crashcut::scheduler::condition {

enum Verb : std::uint8_t { kEnqueue, kWake, kTimedWake, kSignal, kBroadcast, kDestroy };
inline constexpr const char* kVerbs[] = {"enqueue", "wake", "timed wake", "signal", "broadcast", "destroy"};
inline constexpr std::int64_t kByAll = -1, kBySignal = -2;
inline constexpr std::int64_t kWokeForNothing = 1;

inline Access access(ObjectId condition, Verb verb) { return {condition, verb}; }

inline std::size_t place_of(const Object& c, ActorId actor) {
  return static_cast<std::size_t>(std::find(c.list.begin(), c.list.end(), std::int64_t{index(actor)}) - c.list.begin());
}
// A signal wakes one of those who waited when it came, whoever runs first.
inline bool may_wake(const Object& c, std::size_t place) {
  if (place >= c.second.size()) return false;
  if (c.second[place] < 0) return true;
  return std::any_of(c.list.begin() + static_cast<std::ptrdiff_t>(c.second.size()), c.list.end(),
                     [&](std::int64_t signal) { return signal >= c.second[place]; });
}

inline bool enabled(const State& state, ActorId actor, const Operation& operation, const Access& access) {
  if (access.verb != kWake && access.verb != kTimedWake) return true;
  const Object& c = state.object(access.object);
  return may_wake(c, place_of(c, actor)) || c.a > 0 || timer::is_fired(state, operation) || cancellation::is_heeded(state, operation);
}

// Under fifo and lifo a signal wakes one at once, of those who waited when it came.
inline void grant(Object& c, std::int64_t number) {
  const auto waits = [&](std::int64_t since) { return since >= 0 && since <= number; };
  const auto first = std::find_if(c.second.begin(), c.second.end(), waits);
  if (first == c.second.end()) return;
  *(c.c == kFifo ? first : std::find_if(c.second.rbegin(), c.second.rend(), waits).base() - 1) = kBySignal - number;
}

inline void signal(Object& c) {
  const auto waiters = c.second.size();
  const std::int64_t number = c.b++;
  const auto asleep = static_cast<std::size_t>(std::count_if(c.second.begin(), c.second.end(), [](std::int64_t s) { return s >= 0; }));
  if (asleep <= c.list.size() - waiters) return;  // all are woken already: nobody is left to hear it
  c.c == kArbitrary ? c.list.push_back(number) : grant(c, number);
}

// Who is cancelled takes no signal: it is for the others who waited when it came, or for nobody.
inline void leave(Object& c, std::size_t place) {
  const std::int64_t woken = c.second[place];
  c.list.erase(c.list.begin() + static_cast<std::ptrdiff_t>(place));
  c.second.erase(c.second.begin() + static_cast<std::ptrdiff_t>(place));
  if (woken <= kBySignal) return grant(c, kBySignal - woken);
  std::int64_t heard = 0;
  const auto is_for_nobody = [&](std::int64_t signal) {
    const auto waited = std::count_if(c.second.begin(), c.second.end(), [&](std::int64_t since) { return since >= 0 && since <= signal; });
    return waited > heard ? (++heard, false) : true;
  };
  const auto signals = c.list.begin() + static_cast<std::ptrdiff_t>(c.second.size());
  c.list.erase(std::remove_if(signals, c.list.end(), is_for_nobody), c.list.end());
}

inline std::int64_t wake(Object& c, std::size_t place, bool is_fired, bool is_cancelled = false) {
  if (is_cancelled) return leave(c, place), ECANCELED;
  const bool granted = may_wake(c, place);
  const auto waiters = c.second.size();
  if (granted && c.second[place] >= 0) {
    // The oldest signal that this one may take: those that came later may need the later ones.
    c.list.erase(std::find_if(c.list.begin() + static_cast<std::ptrdiff_t>(waiters), c.list.end(), [&](std::int64_t s) { return s >= c.second[place]; }));
  }
  c.list.erase(c.list.begin() + static_cast<std::ptrdiff_t>(place));
  c.second.erase(c.second.begin() + static_cast<std::ptrdiff_t>(place));
  if (granted) return 0;
  if (is_fired) return ETIMEDOUT;
  --c.a;
  return kWokeForNothing;
}

inline std::int64_t apply(State& state, ActorId actor, const Operation& operation, const Access& access) {
  Object& c = state.object(access.object);
  switch (access.verb) {
    case kEnqueue:
      c.list.insert(c.list.begin() + static_cast<std::ptrdiff_t>(c.second.size()), index(actor));
      c.second.push_back(c.b);
      return 0;
    case kSignal: signal(c); return 0;
    case kBroadcast:
      ++c.b;
      std::fill(c.second.begin(), c.second.end(), kByAll);
      c.list.resize(c.second.size());
      return 0;
    case kDestroy: return c.second.empty() ? 0 : kDestroyWhileWaitedFor;
    default: return wake(c, place_of(c, actor), timer::is_fired(state, operation), cancellation::is_heeded(state, operation));
  }
}

// Signals and broadcasts among themselves: each wakes as many as it would after the other.
inline bool dependent(const Access& x, const Access& y) {
  const auto signals = [](const Access& a) { return a.verb == kSignal || a.verb == kBroadcast; };
  return !(signals(x) && signals(y));
}

inline constexpr Primitive kPrimitive{"condition", kVerbs, enabled, apply, dependent, dependent, always};

}  // namespace crashcut::scheduler::condition
