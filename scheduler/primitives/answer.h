// An answer that no thread decides: which of several stores a read gets, whether an operation fails.
//
// "ask" names the possible answers. "answer" is a step of an actor of its own, one an answer: it takes back the
//   possibility of all others. "take" is the next step of the thread that asked: its result is the answer. So an
//   operation with k possible answers is explored with each of them, a schedule says which answer it was by the actor
//   that gave it, and no reduction has to know: the k steps race with each other as any others do. Nobody but the
//   asking thread and its answerers has the object, so an answer commutes with all other steps and costs no further
//   executions.
// If the possible answers depend on the state, the access that knows them stands before "ask" in the same operation and
//   sets possible() of the object; an "ask" that names no answers leaves them as they are.
// The program's threads do not use it: it is for models whose steps have answers.
#pragma once

#include <string>

#include "scheduler/primitive.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::answer {

enum Verb : std::uint8_t { kAsk, kAnswer, kTake };
inline constexpr const char* kVerbs[] = {"ask", "answer", "take"};

// What is kept of it.
// A bit an answer; none: nothing was asked, or it is answered.
inline auto& possible(auto& o) { return o.numbers[0]; }
inline auto& given(auto& o) { return o.numbers[1]; }  // the answer plus one, until it is taken; or 0

inline std::int64_t bit_of(std::int64_t number) { return static_cast<std::int64_t>(std::uint64_t{1} << number); }
inline std::int64_t bits_below(std::int64_t count) { return bit_of(count) - 1; }

// `answers`: a bit each; 0 where another access of the operation says which.
inline Access ask(ObjectId answer, std::int64_t answers = 0) { return {answer, kAsk, answers}; }
// What the actor that gives the answer of this number stands before, always.
inline Access give(ObjectId answer, std::int64_t number) { return {answer, kAnswer, number}; }
inline Access take(ObjectId answer) { return {answer, kTake}; }

inline bool is_given(const Operation& operation) {
  return primitive_of(operation[0].object) == PrimitiveId::kAnswer && operation[0].verb == kAnswer;
}

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  const Object& o = state.object(access.object);
  switch (access.verb) {
    case kAnswer:
      return (possible(o) & bit_of(access.argument)) != 0;
    case kTake:
      return given(o) != 0;
    default:
      return true;
  }
}

inline std::int64_t apply(State& state, ActorId, const Operation&, const Access& access) {
  Object& o = state.object(access.object);
  const std::int64_t answer = given(o) - 1;
  switch (access.verb) {
    case kAsk:
      if (access.argument != 0) possible(o) = access.argument;
      return 0;
    case kAnswer:
      given(o) = access.argument + 1;
      possible(o) = 0;
      return 0;
    default:
      given(o) = 0;
      return answer;
  }
}

// An answer is there only between "ask" and "take", so neither of these is enabled with it.
inline bool co_enabled(const Access& x, const Access& y) { return (x.verb == kAnswer) == (y.verb == kAnswer); }

inline std::string operation_text(const Narrator&, const Operation& operation) {
  switch (operation[0].verb) {
    case kAsk:
      return "ask what is left";
    case kAnswer:
      return "answer " + std::to_string(operation[0].argument + 1);
    default:
      return "learn what is left: answer " + std::to_string(operation.result() + 1);
  }
}
inline constexpr Words kWords{.operation = operation_text};

inline constexpr Primitive kPrimitive{.name = "answer",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .co_enabled = co_enabled,
                                      .traits = {.may_stay_away = bit_of_verb(kAnswer)},
                                      .words = &kWords};

}  // namespace crashcut::scheduler::answer
