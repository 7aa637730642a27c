// A shared variable, plain or atomic, sequentially consistent.
#pragma once

#include "scheduler/primitive.h"

namespace crashcut::scheduler::variable {

enum Verb : std::uint8_t { kRead, kWrite, kAdd, kExchange, kCompareExchange };
inline constexpr const char* kVerbs[] = {"read", "write", "add", "exchange", "compare-exchange"};

// What is kept of it.
inline auto& value(auto& o) { return o.numbers[0]; }

inline Access access(ObjectId variable, Verb verb, std::int64_t argument = 0) { return {variable, verb, argument}; }
// Expected in the upper half, desired in the lower.
inline Access compare_exchange(ObjectId variable, std::int32_t expected, std::int32_t desired) {
  return {variable, kCompareExchange, static_cast<std::int64_t>(expected) << 32 | static_cast<std::uint32_t>(desired)};
}

// The result is what was there before, which is all that the actor learns.
inline std::int64_t apply(State& state, ActorId, const Operation&, const Access& access) {
  Object& v = state.object(access.object);
  const std::int64_t before = value(v);
  switch (access.verb) {
    case kWrite:
      value(v) = access.argument;
      return 0;
    case kAdd:
      value(v) += access.argument;
      return before;
    case kExchange:
      value(v) = access.argument;
      return before;
    case kCompareExchange:
      if (before == access.argument >> 32) value(v) = static_cast<std::int32_t>(access.argument);
      return before;
    default:
      return before;
  }
}

inline bool only_reads(const Access& x) {
  return x.verb == kRead || (x.verb == kCompareExchange && x.result != kNoResult && x.result != x.argument >> 32);
}

// Reads commute; a compare-exchange that failed was a read.
inline bool dependent(const Access& x, const Access& y) { return !(only_reads(x) && only_reads(y)); }
inline bool conflicting(const Access& x, const Access& y) { return !(x.verb == kRead && y.verb == kRead); }

inline constexpr Primitive kPrimitive{
    .name = "variable", .verbs = kVerbs, .apply = apply, .dependent = dependent, .conflicting = conflicting};

}  // namespace crashcut::scheduler::variable
