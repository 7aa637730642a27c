// A spurious wake-up: a thread that waits for a condition variable wakes although nobody signals it. Before it waits
// the thread "offers" itself; "stir" is a step of an actor of its own; the thread's wait "heeds" whether it was
// stirred, and then ends without a signal. It is enough to decide this before the wait begins: a thread that wakes for
// nothing later took no signal and kept none from others, so it might as well have left at once. Only this one wait
// looks at it, so a stir causes only executions in which it makes a difference.
#pragma once

#include "scheduler/primitive.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::stir {

enum Verb : std::uint8_t { kOffer, kStir, kHeed };
inline constexpr const char* kVerbs[] = {"offer", "stir", "heed"};
enum Stage : std::int64_t { kClosed, kOffered, kStirred };

// What is kept of it.
inline auto& left(auto& o) { return o.numbers[0]; }  // how many wake-ups may still come
inline auto& stage(auto& o) { return o.numbers[1]; }

inline Access access(ObjectId stir, Verb verb) { return {stir, verb}; }

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  const Object& stir = state.object(access.object);
  return access.verb != kStir || (left(stir) > 0 && stage(stir) == kOffered);
}

inline std::int64_t apply(State& state, ActorId, const Operation&, const Access& access) {
  Object& stir = state.object(access.object);
  stage(stir) = access.verb == kOffer ? kOffered : access.verb == kStir ? kStirred : kClosed;
  if (access.verb == kStir) --left(stir);
  return 0;
}

// Whether the wait that the operation begins is stirred.
inline bool is_stirred(const State& state, const Operation& operation) {
  for (const Access& access : operation) {
    if (primitive_of(access.object) == PrimitiveId::kStir) return stage(state.object(access.object)) == kStirred;
  }
  return false;
}

inline std::string operation_text(const Narrator&, const Operation& operation) {
  return operation[0].verb == kStir ? "a spurious wake-up comes" : "come to a wait that may end for nothing";
}
inline constexpr Words kWords{.operation = operation_text};

inline constexpr Primitive kPrimitive{.name = "spurious wake-up",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .traits = {.may_stay_away = bit_of_verb(kStir)},
                                      .words = &kWords};

}  // namespace crashcut::scheduler::stir
