// The timer of a thread's timed waits. "fire" is a step of an actor of its own: time may run out at any moment after
// the wait began, and no schedule may assume that it does not. "run out" is the same once the timer may not be early
// any more: then time passes only where nobody else can go on (dependence.h). A thread has one timer object, but an
// actor for each of these: an actor that stood before something else from wait to wait would have races that nobody
// looks for.
#pragma once

#include "scheduler/primitive.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::timer {

enum Verb : std::uint8_t { kArm, kFire, kTake, kRunOut };
inline constexpr const char* kVerbs[] = {"arm", "fire", "take", "run out"};
enum Stage : std::int64_t { kIdle, kArmed, kFired };

// What is kept of it.
inline auto& stage(auto& o) { return o.numbers[0]; }
inline auto& early_left(auto& o) { return o.numbers[1]; }  // how often it may still be early
// 0, or the wait for a condition: then its timer takes the thread off that condition's queue besides (condition.h).
inline auto& armed_for(auto& o) { return o.numbers[2]; }

inline Access access(ObjectId timer, Verb verb, std::int64_t what = 0) { return {timer, verb, what}; }

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  if (access.verb != kFire && access.verb != kRunOut) return true;
  const Object& timer = state.object(access.object);
  return stage(timer) == kArmed && armed_for(timer) == access.argument &&
         (early_left(timer) > 0 || access.verb == kRunOut);
}

inline std::int64_t apply(State& state, ActorId, const Operation&, const Access& access) {
  Object& timer = state.object(access.object);
  switch (access.verb) {
    case kArm:
      stage(timer) = kArmed;
      armed_for(timer) = access.argument;
      break;
    case kTake:
      stage(timer) = kIdle;
      break;
    case kFire:
      --early_left(timer);
      [[fallthrough]];
    default:
      stage(timer) = kFired;
  }
  return 0;
}

// Whether the timer that the operation takes has fired.
inline bool is_fired(const State& state, const Operation& operation) {
  for (const Access& access : operation) {
    if (primitive_of(access.object) == PrimitiveId::kTimer) return stage(state.object(access.object)) == kFired;
  }
  return false;
}

inline std::string operation_text(const Narrator&, const Operation& operation) {
  return operation[0].verb == kArm ? "set the timer" : "run out";
}
inline constexpr Words kWords{.operation = operation_text};

inline constexpr Primitive kPrimitive{
    .name = "timer",
    .verbs = kVerbs,
    .enabled = enabled,
    .apply = apply,
    .traits = {.waits_for_time = bit_of_verb(kRunOut), .may_stay_away = bit_of_verb(kFire) | bit_of_verb(kRunOut)},
    .words = &kWords};

}  // namespace crashcut::scheduler::timer
