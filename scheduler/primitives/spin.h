// A thread in a loop that waits for others without saying for what (sched_yield, sleep). "yield" lets others run.
// Further yields in a row are "spin", which waits until another thread has taken a step: before that, what the loop
// reads cannot have changed. "rest" waits until no other thread can go on (rounds.h). A sleep or a rest that ends since
// no other thread can go on is "wake up" or "go round" (passing_time.h).
#pragma once

#include "scheduler/primitive.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::spin {

enum Verb : std::uint8_t { kYield, kSpin, kWakeUp, kRest, kGoRound };
inline constexpr const char* kVerbs[] = {"yield", "spin", "wake up", "rest", "go round"};
inline constexpr std::int64_t kFirst = -1;

// What is kept of it.
// How many steps others had taken at the last spin, or kFirst.
inline auto& others_steps(auto& o) { return o.numbers[0]; }

inline Access access(ObjectId spin, Verb verb) { return {spin, verb}; }

inline bool enabled(const State& state, ActorId actor, const Operation&, const Access& access) {
  if (access.verb == kRest) return false;
  return access.verb != kSpin ||
         static_cast<std::int64_t>(state.steps_of_others(actor)) > others_steps(state.object(access.object));
}

inline std::int64_t apply(State& state, ActorId actor, const Operation&, const Access& access) {
  others_steps(state.object(access.object)) =
      access.verb != kSpin ? kFirst : static_cast<std::int64_t>(state.steps_of_others(actor));
  return 0;
}

// Only its own thread has this object. Others' steps let it spin on: it meets all.
inline std::string operation_text(const Narrator&, const Operation& operation) {
  switch (operation[0].verb) {
    case kYield:
      return "yield";
    case kWakeUp:
      return "wake up from a sleep";
    case kGoRound:
      return "go round once more, as nobody else can go on";
    default:
      return "yield again and again";
  }
}
inline std::string waiting_text(const Narrator&, const State&, ActorId, const Access&) {
  return "loops: it waits for something that nobody is left to do";
}
inline constexpr Words kWords{.operation = operation_text, .waiting = waiting_text};

inline constexpr Primitive kPrimitive{
    .name = "loop",
    .verbs = kVerbs,
    .enabled = enabled,
    .apply = apply,
    .traits = {.waits_for_time = bit_of_verb(kWakeUp) | bit_of_verb(kGoRound), .meets_all = bit_of_verb(kSpin)},
    .words = &kWords};

}  // namespace crashcut::scheduler::spin
