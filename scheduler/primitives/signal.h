// Signals between threads: what a step does. What is kept of signals, and which steps meet, is in signals.h.
#pragma once

#include "scheduler/signals.h"

namespace crashcut::scheduler::signal {

inline std::int64_t apply(State& state, ActorId actor, const Operation& operation, const Access& access) {
  Object& p = state.object(access.object);
  switch (access.verb) {
    case kSend:
      return send(state, actor, operation, access);
    case kDeliver: {
      const std::int64_t found = deliver(state, operation, access);
      came(state.object(own_object_in(operation))) = found;
      return found;
    }
    case kSetMask:
      mask(state.object(own_object_in(operation))) = field(p, access.expected, kMask) = access.argument;
      // Where the caller only changes what may interrupt its wait, nothing is taken.
      return (access.order & 1) != 0 ? 0 : deliver(state, operation, access);
    case kExpect:
      field(p, access.expected, kExpected) = access.argument;
      return 0;
    case kWait: {
      field(p, access.expected, kExpected) = 0;
      if (cancellation::is_heeded(state, operation)) return -ECANCELED;
      const std::int64_t found = first_of(p, access.expected, access.argument);
      if (found != 0) take(p, access.expected, found);
      return found;
    }
    case kPending:
      return pending_for(p, access.expected) | pending_for(p, kAnyThread);
    case kReadable:
      return readable(p, access);
    case kAction:
      set_action(p, access);
      return 0;
    case kAddThread:
      field(p, access.expected, kLife) = kLives;
      field(p, access.expected, kMask) = access.argument;
      return 0;
    case kRemoveThread:
      for (const Field f : {kMask, kExpected}) field(p, access.expected, f) = 0;
      field(p, access.expected, kLife) = kIsOver;
      std::erase_if(pending(p), [&](std::int64_t entry) { return entry >> 8 == access.expected + 1; });
      return 0;
    default:
      return apply_to_thread(p, access);
  }
}

inline bool dependent(const Access& x, const Access& y) { return both_ways(x, y, false); }
inline bool conflicting(const Access& x, const Access& y) { return both_ways(x, y, true); }

// A thread that blocks signals keeps them out, while others may take what it would get.
inline bool holds(const State& state, ActorId actor, const Access& access) {
  if (access.verb != kInterrupt || access.expected != index(actor)) return false;
  return lets_in(state.object(access.object)) == 0 || mask(state.object(access.object)) != 0;
}

// A thread that takes a signal knows of what the sender did before.
inline void edges(const Access& access, const EdgeVisitor& visit) {
  const auto part_of = [](std::int64_t thread) { return static_cast<std::uint32_t>(thread + 1); };
  if (access.verb == kSend) visit(Edge::kRelease, part_of(access.expected));
  const bool may_take = access.verb == kDeliver || access.verb == kSetMask || access.verb == kWait;
  if (may_take && access.result > 0)
    visit(Edge::kAcquire, part_of(takes_from_process(access) ? kAnyThread : access.expected));
  if (access.verb == kReadable && access.result > 0) {
    visit(Edge::kAcquire, part_of(access.expected));
    visit(Edge::kAcquire, part_of(kAnyThread));
  }
  // From the one that brings it to its thread.
  if (access.verb == kInterrupt) visit(Edge::kRelease, 0);
  if (access.is_interruption) visit(Edge::kAcquire, 0);
}

inline constexpr Primitive kPrimitive{.name = "signal",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = dependent,
                                      .conflicting = conflicting,
                                      .holds = holds,
                                      .edges = edges,
                                      .traits = {.may_stay_away = bit_of_verb(kDeliver)}};

}  // namespace crashcut::scheduler::signal
