// Signals between threads: what a step does. What is kept of signals, and which steps meet, is in signals.h.
#pragma once

#include "scheduler/signals.h"
#include "scheduler/words.h"

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

// "SIGUSR1"
inline std::string name_of(std::int64_t number) {
  const char* abbreviation = sigabbrev_np(static_cast<int>(number));
  return abbreviation != nullptr ? std::string("SIG") + abbreviation : "signal " + std::to_string(number);
}
inline std::string set_text(std::int64_t set) {
  std::string names;
  for (std::int64_t i = 1; i < static_cast<std::int64_t>(kSignalsEnd); ++i) {
    if ((set & bit_of(i)) != 0) names += (names.empty() ? "" : ", ") + name_of(i);
  }
  const int count = std::popcount(static_cast<std::uint64_t>(set));
  return count > 4 ? "one of " + std::to_string(count) + " signals" : names;
}
inline std::string send_text(const Narrator& narrator, const Access& a) {
  return "send " + name_of(a.argument) + " to " +
         (a.expected == kAnyThread ? "the process" : narrator.actor_text(static_cast<ActorId>(a.expected)));
}
inline std::string operation_text(const Narrator& narrator, const Operation& operation) {
  const Access& a = operation[0];
  const std::string taken = a.result > 0 && (a.result & 0xff) > 0 ? name_of(a.result & 0xff) : "";
  const std::string handled = taken.empty() ? "" : ", and get " + taken;
  switch (a.verb) {
    case kSend:
      return send_text(narrator, a) + handled;
    case kDeliver:
      return taken.empty() ? "a signal comes" : taken + " comes";
    case kSetMask:
      return "block " + (a.argument == 0 ? "no signal" : set_text(a.argument)) + handled;
    case kExpect:
      return "begin to wait for a signal";
    case kWait:
      return taken.empty() ? "wait for " + set_text(a.argument) : "take " + taken;
    case kPending:
    case kReadable:
      return "see which signals are pending";
    case kAction:
      return "set what " + name_of(a.argument & 0xff) + " does";
    case kAddThread:
      return "begin";
    case kSuspend:
      return "wait for a signal's handler";
    default:
      return "begin a call that may wait";
  }
}
inline std::string waiting_text(const Narrator&, const State&, ActorId, const Access& access) {
  if (access.verb == kWait) return "waits for " + set_text(access.argument) + ", which nobody sends";
  return access.verb == kSuspend ? "waits for a signal, which nobody sends" : "";
}
inline constexpr Words kWords{.operation = operation_text, .waiting = waiting_text};

inline constexpr Primitive kPrimitive{.name = "signal",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = dependent,
                                      .conflicting = conflicting,
                                      .holds = holds,
                                      .edges = edges,
                                      .traits = {.may_stay_away = bit_of_verb(kDeliver)},
                                      .words = &kWords};

}  // namespace crashcut::scheduler::signal
