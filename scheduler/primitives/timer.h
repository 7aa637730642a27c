// The timer of a thread's timed wait. Object: a its stage. "fire" is a step of an actor of its own: time may run out
// at any moment after the wait began, and no schedule may assume that it does not. "run out" is the same once it may not be
// early any more: then time passes only where nobody else can go on (dependence.h).
#pragma once

#include "scheduler/primitive.h"

namespace crashcut::scheduler::timer {

enum Verb : std::uint8_t { kArm, kFire, kTake, kRunOut };
inline constexpr const char* kVerbs[] = {"arm", "fire", "take", "run out"};
enum Stage : std::int64_t { kIdle, kArmed, kFired };

inline Access access(ObjectId timer, Verb verb) { return {timer, verb}; }

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  return (access.verb != kFire && access.verb != kRunOut) || state.object(access.object).a == kArmed;
}

inline std::int64_t apply(State& state, ActorId, const Operation&, const Access& access) {
  Object& timer = state.object(access.object);
  timer.a = access.verb == kArm ? kArmed : access.verb == kTake ? kIdle : kFired;
  return 0;
}

// Whether the timer that the operation takes has fired.
inline bool is_fired(const State& state, const Operation& operation) {
  for (const Access& access : operation) {
    if (primitive_of(access.object) == PrimitiveId::kTimer) return state.object(access.object).a == kFired;
  }
  return false;
}

inline constexpr Primitive kPrimitive{"timer", kVerbs, enabled, apply, always, always, always};

}  // namespace crashcut::scheduler::timer
