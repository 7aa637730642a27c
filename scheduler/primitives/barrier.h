// A barrier: "arrive", then "leave" once enough have arrived. Object: a how many, b generation, c arrived in it;
// list, a finished generation, the lowest actor in it (it gets PTHREAD_BARRIER_SERIAL_THREAD; which one is
// unspecified).
#pragma once

#include <algorithm>

#include "scheduler/primitive.h"

namespace crashcut::scheduler::barrier {

enum Verb : std::uint8_t { kArrive, kLeave, kDestroy };
inline constexpr const char* kVerbs[] = {"arrive", "leave", "destroy"};

// The argument of "leave" is the result of "arrive": the generation.
inline Access access(ObjectId barrier, Verb verb, std::int64_t generation = 0) { return {barrier, verb, generation}; }

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  return access.verb != kLeave || state.object(access.object).b > access.argument;
}

inline std::int64_t arrive(Object& b, ActorId actor) {
  const std::int64_t generation = b.b;
  if (b.c == 0) b.second.assign(1, index(actor));
  b.second[0] = std::min<std::int64_t>(b.second[0], index(actor));
  if (++b.c == b.a) {
    b.list.push_back(b.second[0]);
    b.c = 0;
    ++b.b;
  }
  return generation;
}

inline std::int64_t apply(State& state, ActorId actor, const Operation&, const Access& access) {
  Object& b = state.object(access.object);
  switch (access.verb) {
    case kArrive:
      return arrive(b, actor);
    case kLeave:
      return access.argument < 0                                                 ? kUseAfterDestroy
             : b.list[static_cast<std::size_t>(access.argument)] == index(actor) ? 1
                                                                                 : 0;
    default:
      return b.c == 0 ? 0 : kDestroyWhileWaitedFor;
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

inline constexpr Primitive kPrimitive{
    "barrier", kVerbs, enabled, apply, dependent, always, always, nullptr, {kDestroy, 1 << kLeave}};

}  // namespace crashcut::scheduler::barrier
