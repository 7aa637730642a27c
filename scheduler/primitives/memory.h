// Memory: eight aligned bytes of the program under test, which an access touches from `offset` on for `bytes`.
// Sequentially consistent.
//
// The bytes are modelled, not only named, so that the search foresees whether a compare-exchange that it moves would
//   fail. Where the model cannot know (a plain store's value is not told to us, code that is not instrumented writes),
//   the runtime looks when the access is executed: `observed` has the bytes, `is_observed` is set.
// "await" is a load in a loop that would come to the same end as in its last round: it waits until one of the places
//   that the loop looks at (the awaits of one operation) does not hold `argument` any more.
#pragma once

#include "scheduler/primitive.h"

namespace crashcut::scheduler::memory {

enum Verb : std::uint8_t {
  kLoad,
  kStore,
  kExchange,
  kAdd,
  kSubtract,
  kAnd,
  kOr,
  kXor,
  kNand,
  kCompareExchange,
  kModify,
  kAwait
};
inline constexpr const char* kVerbs[] = {"load", "store", "exchange",         "add",   "subtract", "and", "or",
                                         "xor",  "nand",  "compare-exchange", "write", "await"};
// What an access orders (C++'s release and acquire); a plain one orders nothing.
enum Order : std::uint8_t { kRelaxed = 0, kAcquire = 1, kRelease = 2, kAcquireIfSame = 4, kPlain = 8 };
inline constexpr std::uint64_t kGranule = 8;

// What is kept of it.
inline auto& content(auto& o) { return o.numbers[0]; }  // the eight bytes
inline auto& unknown(auto& o) { return o.numbers[2]; }  // which of the bytes are not known: a mask

inline Access access(ObjectId memory, Verb verb, std::uint8_t offset, std::uint8_t bytes, std::int64_t argument = 0,
                     std::int64_t expected = 0) {
  Access a{memory, verb, argument};
  a.expected = expected;
  a.offset = offset;
  a.bytes = bytes;
  return a;
}

inline std::int64_t low_bits(std::int64_t value, unsigned bytes) {
  return bytes >= 8
             ? value
             : static_cast<std::int64_t>(static_cast<std::uint64_t>(value) & ((std::uint64_t{1} << bytes * 8) - 1));
}
inline std::int64_t mask_of(const Access& a) { return ((std::int64_t{1} << a.bytes) - 1) << a.offset; }
inline std::int64_t value_in(std::int64_t content, const Access& a) {
  return low_bits(static_cast<std::int64_t>(static_cast<std::uint64_t>(content) >> a.offset * 8), a.bytes);
}
inline std::int64_t with_value(std::int64_t content, const Access& a, std::int64_t value) {
  const std::uint64_t mask = static_cast<std::uint64_t>(low_bits(-1, a.bytes)) << a.offset * 8;
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(content) & ~mask) |
                                   (static_cast<std::uint64_t>(value) << a.offset * 8 & mask));
}
inline bool is_known(const Object& m, const Access& a) { return (unknown(m) & mask_of(a)) == 0; }

inline bool enabled(const State& state, ActorId, const Operation& operation, const Access& access) {
  if (access.verb != kAwait) return true;
  for (const Access& a : operation) {
    if (primitive_of(a.object) != PrimitiveId::kMemory || a.verb != kAwait) continue;
    const Object& m = state.object(a.object);
    if (!is_known(m, a) || value_in(content(m), a) != a.argument) return true;
  }
  return false;
}

inline std::int64_t value_after(const Access& a, std::int64_t before) {
  const auto x = static_cast<std::uint64_t>(before), y = static_cast<std::uint64_t>(a.argument);
  const auto number = [&](std::uint64_t value) { return low_bits(static_cast<std::int64_t>(value), a.bytes); };
  switch (a.verb) {
    case kStore:
    case kExchange:
      return number(y);
    case kAdd:
      return number(x + y);
    case kSubtract:
      return number(x - y);
    case kAnd:
      return number(x & y);
    case kOr:
      return number(x | y);
    case kXor:
      return number(x ^ y);
    case kNand:
      return number(~(x & y));
    case kCompareExchange:
      return before == low_bits(a.expected, a.bytes) ? number(y) : before;
    default:
      return before;
  }
}

enum Result : std::int64_t { kSame, kChanged };

inline std::int64_t apply(State& state, ActorId, const Operation&, const Access& access) {
  Object& m = state.object(access.object);
  if (access.is_observed) {
    content(m) = with_value(content(m), access, value_in(access.observed, access));
    unknown(m) &= ~mask_of(access);
  }
  if (access.verb == kLoad || access.verb == kAwait) return kSame;
  if (access.verb == kModify) return unknown(m) |= mask_of(access), kChanged;
  const std::int64_t before = value_in(content(m), access), after = value_after(access, before);
  const bool is_sure = is_known(m, access) && !access.is_observed;
  content(m) = with_value(content(m), access, after);
  if (access.verb == kStore || access.verb == kExchange) unknown(m) &= ~mask_of(access);
  return access.verb == kStore || !is_sure || after != before ? kChanged : kSame;
}

inline bool overlap(const Access& x, const Access& y) { return (mask_of(x) & mask_of(y)) != 0; }
inline bool only_loads(const Access& x) { return x.verb == kLoad || x.verb == kAwait; }
// One that leaves behind what it found has only read: a compare-exchange that failed, a test-and-set of what is set.
inline bool only_read(const Access& x) {
  return only_loads(x) || (x.verb != kStore && x.verb != kModify && x.result == kSame);
}

// Reads commute, and so do accesses to different bytes.
inline bool dependent(const Access& x, const Access& y) { return overlap(x, y) && !(only_read(x) && only_read(y)); }
inline bool conflicting(const Access& x, const Access& y) { return overlap(x, y) && !(only_loads(x) && only_loads(y)); }

inline constexpr Primitive kPrimitive{.name = "memory",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = dependent,
                                      .conflicting = conflicting,
                                      .traits = {.is_memory = true}};

}  // namespace crashcut::scheduler::memory
