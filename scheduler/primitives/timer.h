// The timer of a thread's timed waits. "fire" is a step of an actor of its own: time may run out at any moment after
// the wait began, and no schedule may assume that it does not. "run out" is the same once the timer may not be early
// any more: then time passes only where nobody else can go on (dependence.h). Object: a its stage, b how often it may
// still be early, c what it was armed for: 0, or the wait for a condition, whose timer takes the thread off that
// condition's queue besides (condition.h). A thread has one timer object, but an actor for each of these: an actor that
// stood before something else from wait to wait would have races that nobody looks for.
#pragma once

#include "scheduler/primitive.h"

namespace crashcut::scheduler::timer {

enum Verb : std::uint8_t { kArm, kFire, kTake, kRunOut };
inline constexpr const char* kVerbs[] = {"arm", "fire", "take", "run out"};
enum Stage : std::int64_t { kIdle, kArmed, kFired };

inline Access access(ObjectId timer, Verb verb, std::int64_t what = 0) { return {timer, verb, what}; }

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  if (access.verb != kFire && access.verb != kRunOut) return true;
  const Object& timer = state.object(access.object);
  return timer.a == kArmed && timer.c == access.argument && (timer.b > 0 || access.verb == kRunOut);
}

inline std::int64_t apply(State& state, ActorId, const Operation&, const Access& access) {
  Object& timer = state.object(access.object);
  switch (access.verb) {
    case kArm:
      timer.a = kArmed;
      timer.c = access.argument;
      break;
    case kTake:
      timer.a = kIdle;
      break;
    case kFire:
      --timer.b;
      [[fallthrough]];
    default:
      timer.a = kFired;
  }
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
