// A futex: what std::atomic's wait, std::latch, std::counting_semaphore and std::barrier sleep on. "wait" goes to
// sleep if the word holds what it should (`observed` is 1 then), "wake up" follows when woken. Object: as a condition
// variable's, whose waiters, signals and policies it shares.
#pragma once

#include "scheduler/primitives/condition.h"

namespace crashcut::scheduler::futex {

enum Verb : std::uint8_t { kWait, kWakeUp, kTimedWakeUp, kWake };
inline constexpr const char* kVerbs[] = {"wait", "wake up", "timed wake up", "wake"};

// The argument of "wake" is how many, of "wait" what the word should hold.
inline Access access(ObjectId futex, Verb verb, std::int64_t argument = 0) { return {futex, verb, argument}; }

inline bool enabled(const State& state, ActorId actor, const Operation& operation, const Access& access) {
  if (access.verb != kWakeUp && access.verb != kTimedWakeUp) return true;
  const Object& f = state.object(access.object);
  return condition::may_wake(f, condition::place_of(f, actor)) || timer::is_fired(state, operation);
}

inline std::int64_t wake(Object& f, std::int64_t most) {
  std::int64_t woken = 0;
  for (; woken < most; ++woken) {
    const auto open = f.list.size() - f.second.size();
    const auto asleep = static_cast<std::size_t>(std::count_if(f.second.begin(), f.second.end(), [](std::int64_t s) { return s >= 0; }));
    if (asleep <= open) break;
    condition::signal(f);
  }
  return woken;
}

inline std::int64_t apply(State& state, ActorId actor, const Operation& operation, const Access& access) {
  Object& f = state.object(access.object);
  switch (access.verb) {
    case kWait:
      if (access.observed == 0) return EAGAIN;
      f.list.insert(f.list.begin() + static_cast<std::ptrdiff_t>(f.second.size()), index(actor));
      f.second.push_back(f.b);
      return 0;
    case kWake: return wake(f, access.argument);
    default: return condition::wake(f, condition::place_of(f, actor), timer::is_fired(state, operation));
  }
}

inline constexpr Primitive kPrimitive{"futex", kVerbs, enabled, apply, always, always, always};

}  // namespace crashcut::scheduler::futex
