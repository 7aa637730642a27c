// A futex: what std::atomic's wait, std::latch, std::counting_semaphore and std::barrier sleep on. "wait" goes to
// sleep if the word holds what it should (`observed` is 1 then), "wake up" follows when woken. Object: as of waiters.h.
#pragma once

#include <cerrno>

#include "scheduler/primitive.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/waiters.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::futex {

enum Verb : std::uint8_t { kWait, kWakeUp, kTimedWakeUp, kWake };
inline constexpr const char* kVerbs[] = {"wait", "wake up", "timed wake up", "wake"};

// The argument of "wake" is how many, of "wait" what the word should hold.
inline Access access(ObjectId futex, Verb verb, std::int64_t argument = 0) { return {futex, verb, argument}; }

inline bool enabled(const State& state, ActorId actor, const Operation& operation, const Access& access) {
  if (access.verb != kWakeUp && access.verb != kTimedWakeUp) return true;
  const Object& f = state.object(access.object);
  return waiters::may_wake(f, waiters::place_of(f, actor)) || timer::is_fired(state, operation);
}

inline std::int64_t wake(Object& f, std::int64_t most) {
  std::int64_t woken = 0;
  for (; woken < most && waiters::has_sleeper(f); ++woken) waiters::signal(f);
  return woken;
}

inline std::int64_t apply(State& state, ActorId actor, const Operation&, const Access& access) {
  Object& f = state.object(access.object);
  switch (access.verb) {
    case kWait:
      if (access.observed == 0) return EAGAIN;
      waiters::enqueue(f, actor);
      return 0;
    case kWake:
      return wake(f, access.argument);
    // Not woken: then its time has run out.
    default:
      return waiters::wake(f, waiters::place_of(f, actor)) ? 0 : ETIMEDOUT;
  }
}

inline std::string operation_text(const Narrator& narrator, const Operation& operation) {
  const Access& first = operation[0];
  const std::string object = narrator.object_text(first.object);
  if (first.verb == kWait && first.result == EAGAIN) return "not wait for " + object + ": it has changed";
  return (first.verb == kWait ? "wait for " : first.verb == kWake ? "wake who waits for " : "wake up from ") + object;
}
inline std::string waiting_text(const Narrator& narrator, const State&, ActorId, const Access& access) {
  return "waits for " + narrator.object_text(access.object) + ", which nobody wakes";
}
inline constexpr Words kWords{.operation = operation_text, .waiting = waiting_text};

inline constexpr Primitive kPrimitive{
    .name = "futex", .verbs = kVerbs, .enabled = enabled, .apply = apply, .words = &kWords};

}  // namespace crashcut::scheduler::futex
