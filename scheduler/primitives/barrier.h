// A barrier: "arrive", then "leave" once enough have arrived. The lowest actor of a
// generation gets PTHREAD_BARRIER_SERIAL_THREAD; which one does is unspecified.
#pragma once

#include <algorithm>

#include "scheduler/primitive.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::barrier {

enum Verb : std::uint8_t { kArrive, kLeave, kDestroy };
inline constexpr const char* kVerbs[] = {"arrive", "leave", "destroy"};

// What is kept of it.
inline auto& size(auto& o) { return o.numbers[0]; }  // how many meet
inline auto& generation(auto& o) { return o.numbers[1]; }
inline auto& arrived(auto& o) { return o.numbers[2]; }  // in this generation
inline auto& serials(auto& o) { return o.lists[0]; }    // a finished generation: the lowest actor in it
inline auto& lowest(auto& o) { return o.lists[1]; }     // the lowest actor in this generation, once one has arrived

// The argument of "leave" is the result of "arrive": the generation.
inline Access access(ObjectId barrier, Verb verb, std::int64_t generation = 0) { return {barrier, verb, generation}; }

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  return access.verb != kLeave || generation(state.object(access.object)) > access.argument;
}

inline std::int64_t arrive(Object& b, ActorId actor) {
  const std::int64_t joined = generation(b);
  if (arrived(b) == 0) lowest(b).assign(1, index(actor));
  lowest(b)[0] = std::min<std::int64_t>(lowest(b)[0], index(actor));
  if (++arrived(b) == size(b)) {
    serials(b).push_back(lowest(b)[0]);
    arrived(b) = 0;
    ++generation(b);
  }
  return joined;
}

inline std::int64_t apply(State& state, ActorId actor, const Operation&, const Access& access) {
  Object& b = state.object(access.object);
  switch (access.verb) {
    case kArrive:
      return arrive(b, actor);
    case kLeave:
      return access.argument < 0                                                     ? kUseAfterDestroy
             : serials(b)[static_cast<std::size_t>(access.argument)] == index(actor) ? 1
                                                                                     : 0;
    default:
      return arrived(b) == 0 ? 0 : kDestroyWhileWaitedFor;
  }
}

inline bool dependent(const Access& x, const Access& y) {
  const auto is = [&](Verb verb) { return x.verb == verb || y.verb == verb; };
  if (is(kDestroy)) return true;
  // Leaving reads what its generation left behind and changes nothing.
  if (x.verb == kLeave && y.verb == kLeave) return false;
  // Arrivals of one generation are counted, in any order; one more would belong to the next.
  if (x.verb == kArrive && y.verb == kArrive) return x.result != y.result;
  // An arrival lets those of its own generation leave and no others.
  return x.verb == kArrive ? x.result == y.argument : y.result == x.argument;
}

// A thread that leaves knows of all that the threads of its generation did before they arrived.
inline void edges(const Access& access, const EdgeVisitor& visit) {
  if (access.verb == kArrive) return visit(Edge::kRelease, static_cast<std::uint32_t>(access.result));
  if (access.verb == kLeave) visit(Edge::kAcquire, static_cast<std::uint32_t>(access.argument));
}

inline std::string operation_text(const Narrator& narrator, const Operation& operation) {
  return (operation[0].verb == kArrive ? "arrive at " : "leave ") + narrator.object_text(operation[0].object);
}
inline std::string waiting_text(const Narrator& narrator, const State& state, ActorId, const Access& access) {
  const Object& b = state.object(access.object);
  return "waits at " + narrator.object_text(access.object) + ": " + std::to_string(arrived(b)) + " of " +
         std::to_string(size(b)) + " have arrived";
}
inline constexpr Words kWords{.operation = operation_text, .waiting = waiting_text};

inline constexpr Primitive kPrimitive{.name = "barrier",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = dependent,
                                      .edges = edges,
                                      .destroys = {.verb = kDestroy, .leaving = bit_of_verb(kLeave)},
                                      .words = &kWords};

}  // namespace crashcut::scheduler::barrier
