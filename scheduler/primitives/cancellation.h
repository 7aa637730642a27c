// The cancellation of a thread, as POSIX has it for deferred cancellation. A cancellation point that does not wait
// "heeds" the request. One that waits is two steps: "enter", where a thread whose cancellation was requested before
// ends; then the wait itself, which has "leave" besides. Between the two the request may be acted upon, "act", a step
// of an actor of its own: then the wait waits for nothing any more, changes nothing but that the thread leaves a queue,
// and its first result is ECANCELED. Where what the thread waits for comes before that, it goes on, and the request
// stays. POSIX leaves open which of the two it is (2.9.5), so both are tried.
#pragma once

#include <cerrno>

#include "scheduler/primitive.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::cancellation {

enum Verb : std::uint8_t { kRequest, kHeed, kEnter, kAct, kLeave };
inline constexpr const char* kVerbs[] = {"request", "heed", "enter", "act", "leave"};
enum Stage : std::int64_t { kOutside, kInside, kActedUpon };

// What is kept of it.
inline auto& is_requested(auto& o) { return o.numbers[0]; }
inline auto& stage(auto& o) { return o.numbers[1]; }

inline Access access(ObjectId cancellation, Verb verb) { return {cancellation, verb}; }

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  const Object& cancellation = state.object(access.object);
  return access.verb != kAct || (is_requested(cancellation) != 0 && stage(cancellation) == kInside);
}

inline std::int64_t apply(State& state, ActorId, const Operation&, const Access& access) {
  Object& cancellation = state.object(access.object);
  const bool is_acted_upon = stage(cancellation) == kActedUpon;
  switch (access.verb) {
    case kRequest:
      is_requested(cancellation) = 1;
      return 0;
    case kAct:
      stage(cancellation) = kActedUpon;
      return 0;
    case kLeave:
      stage(cancellation) = kOutside;
      return is_acted_upon ? ECANCELED : 0;
    case kEnter:
      stage(cancellation) = kInside;
      [[fallthrough]];
    default:
      return is_requested(cancellation) != 0 ? ECANCELED : 0;
  }
}

// Whether the wait ends since its thread is cancelled.
inline bool is_heeded(const State& state, const Operation& operation) {
  for (const Access& access : operation) {
    if (primitive_of(access.object) == PrimitiveId::kCancellation && access.verb == kLeave)
      return stage(state.object(access.object)) == kActedUpon;
  }
  return false;
}

// Requests only set what stays set, and "leave" does not look at that.
inline bool dependent(const Access& x, const Access& y) {
  const auto sets = [](const Access& a) { return a.verb == kRequest; };
  return !(sets(x) && (sets(y) || y.verb == kLeave)) && !(sets(y) && x.verb == kLeave);
}

// By the thread itself.
inline bool is_heed(const Access& access) { return access.verb != kRequest && access.verb != kAct; }
inline std::string operation_text(const Narrator& narrator, const Operation& operation) {
  if (operation[0].verb == kAct) return "its cancellation is acted upon";
  return is_heed(operation[0]) ? "see whether it is cancelled" : "cancel " + narrator.object_text(operation[0].object);
}
inline const char* besides(const Access& access) {
  return is_heed(access) && access.result == ECANCELED ? ": it is cancelled" : "";
}
inline std::string object_text(const Narrator& narrator, ObjectId object) { return narrator.thread_text(object); }
inline constexpr Words kWords{
    .operation = operation_text, .besides = besides, .object = object_text, .is_own = is_heed};

inline constexpr Primitive kPrimitive{.name = "cancellation",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = dependent,
                                      .conflicting = dependent,
                                      .traits = {.may_stay_away = bit_of_verb(kAct)},
                                      .words = &kWords};

}  // namespace crashcut::scheduler::cancellation
