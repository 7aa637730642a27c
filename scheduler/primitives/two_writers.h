// Readers and two writers (the McMini paper, section 5.4): any number of readers, or the one writer, or the other.
#pragma once

#include <algorithm>

#include "scheduler/primitive.h"

namespace crashcut::scheduler::two_writers {

enum Verb : std::uint8_t { kRead, kWriteFirst, kWriteSecond, kReadDone, kWriteDone };
inline constexpr const char* kVerbs[] = {"read", "write 1", "write 2", "read done", "write done"};

// What is kept of it.
inline auto& writer(auto& o) { return o.numbers[1]; }  // which one is in, 1 or 2; or 0
inline auto& readers(auto& o) { return o.lists[0]; }   // ascending

inline Access access(ObjectId lock, Verb verb) { return {lock, verb}; }

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  const Object& l = state.object(access.object);
  switch (access.verb) {
    case kRead:
      return writer(l) == 0;
    case kWriteFirst:
    case kWriteSecond:
      return writer(l) == 0 && readers(l).empty();
    default:
      return true;
  }
}

inline std::int64_t leave(Object& l, std::int64_t reader) {
  const auto it = std::find(readers(l).begin(), readers(l).end(), reader);
  return it == readers(l).end() ? kUnlockOfUnlocked : (readers(l).erase(it), 0);
}

inline std::int64_t apply(State& state, ActorId actor, const Operation&, const Access& access) {
  Object& l = state.object(access.object);
  const std::int64_t self = index(actor);
  switch (access.verb) {
    case kRead:
      readers(l).insert(std::upper_bound(readers(l).begin(), readers(l).end(), self), self);
      return 0;
    case kWriteFirst:
      writer(l) = 1;
      return 0;
    case kWriteSecond:
      writer(l) = 2;
      return 0;
    case kReadDone:
      return leave(l, self);
    default:
      return writer(l) == 0 ? kUnlockOfUnlocked : (writer(l) = 0, 0);
  }
}

// Readers do not keep each other from anything.
inline bool dependent(const Access& x, const Access& y) {
  const auto reads = [](const Access& a) { return a.verb == kRead || (a.verb == kReadDone && a.result == 0); };
  return !(reads(x) && reads(y));
}

// Entering needs the writer to be out.
inline bool co_enabled(const Access& x, const Access& y) {
  const auto enters = [](const Access& a) { return a.verb <= kWriteSecond; };
  const auto leaves = [](const Access& a) { return a.verb == kWriteDone && a.result == 0; };
  return !(enters(x) && leaves(y)) && !(enters(y) && leaves(x));
}

inline bool holds(const State& state, ActorId actor, const Access& access) {
  const Object& l = state.object(access.object);
  return (access.verb == kWriteFirst || access.verb == kWriteSecond) &&
         std::binary_search(readers(l).begin(), readers(l).end(), std::int64_t{index(actor)});
}

inline constexpr Primitive kPrimitive{.name = "two-writers lock",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = dependent,
                                      .conflicting = dependent,
                                      .co_enabled = co_enabled,
                                      .holds = holds};

}  // namespace crashcut::scheduler::two_writers
