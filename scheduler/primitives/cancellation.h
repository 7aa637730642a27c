// The cancellation of a thread, as POSIX has it for deferred cancellation. Object: a whether it was requested.
// An operation that is a cancellation point has "heed" besides: once the cancellation is requested it waits for nothing
// any more, changes nothing but that it leaves a queue, and its first result is ECANCELED.
#pragma once

#include <cerrno>

#include "scheduler/primitive.h"

namespace crashcut::scheduler::cancellation {

enum Verb : std::uint8_t { kRequest, kHeed };
inline constexpr const char* kVerbs[] = {"request", "heed"};

inline Access access(ObjectId cancellation, Verb verb) { return {cancellation, verb}; }

inline std::int64_t apply(State& state, ActorId, const Operation&, const Access& access) {
  Object& cancellation = state.object(access.object);
  if (access.verb == kRequest) cancellation.a = 1;
  return access.verb == kHeed && cancellation.a != 0 ? ECANCELED : 0;
}

// Whether the operation heeds a cancellation that was requested.
inline bool is_heeded(const State& state, const Operation& operation) {
  for (const Access& access : operation) {
    if (primitive_of(access.object) == PrimitiveId::kCancellation && access.verb == kHeed) return state.object(access.object).a != 0;
  }
  return false;
}

// Requests only set what stays set; only its own thread heeds.
inline bool dependent(const Access& x, const Access& y) { return x.verb != y.verb; }

inline constexpr Primitive kPrimitive{"cancellation", kVerbs, always_enabled, apply, dependent, dependent, always};

}  // namespace crashcut::scheduler::cancellation
