// A host: a machine, that is a process with an address space of its own, of which several run in one execution. It may
// fail while the others go on.
//
// An actor belongs to a host if its operations name the host (Operation::set_host). "fail" is a step of an actor that
//   belongs to no host and always stands before it. "end" is the last step of the host's program. After either one no
//   actor of the host takes a step: such actors are gone, and gone actors are no deadlock.
// "wait" ends when the host has ended (kEnded) or failed (kFailed). "restart" begins it again, with new actors: their
//   operations name the next incarnation, and their first step is "start".
// What a gone actor held can be taken over. A primitive that lets that happen asks State::is_gone() of the owner in
//   enabled(), and State::look_if_gone() in apply(): then the access depends on that host's failure, and all other
//   accesses commute with it. A primitive that does not ask has objects that nobody can get any more.
// A bound on failures is a semaphore: "fail" takes a unit of it in the same step.
#pragma once

#include <cerrno>

#include "scheduler/primitive.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::host {

enum Verb : std::uint8_t { kStart, kEnd, kFail, kWait, kRestart };
inline constexpr const char* kVerbs[] = {"start", "end", "fail", "wait", "restart"};
enum Stage : std::int64_t { kUp, kEnded, kFailed };

// What is kept of it.
inline auto& incarnation(auto& o) { return o.numbers[0]; }  // how often it was restarted
inline auto& stage(auto& o) { return o.numbers[1]; }
inline auto& has_failed(auto& o) { return o.numbers[2]; }  // 1: some incarnation did

// The argument of "start" is the incarnation.
inline Access access(ObjectId host, Verb verb, std::int64_t argument = 0) { return {host, verb, argument}; }

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  const Object& o = state.object(access.object);
  switch (access.verb) {
    case kStart:
      return incarnation(o) >= access.argument;
    case kFail:
      return stage(o) == kUp;
    case kWait:
      return stage(o) != kUp;
    default:
      return true;
  }
}

// "wait" tells how the host ended; "restart" of a host that is up is refused.
inline std::int64_t apply(State& state, ActorId, const Operation&, const Access& access) {
  Object& o = state.object(access.object);
  switch (access.verb) {
    case kEnd:
      stage(o) = kEnded;
      return 0;
    case kFail:
      stage(o) = kFailed;
      has_failed(o) = 1;
      return 0;
    case kWait:
      return stage(o);
    case kRestart:
      if (stage(o) == kUp) return EBUSY;
      stage(o) = kUp;
      ++incarnation(o);
      return 0;
    default:
      return 0;
  }
}

// Waits only read, and so does a restart that is refused. Actors that start change nothing.
inline bool dependent(const Access& x, const Access& y) {
  const auto only_reads = [](const Access& a) {
    return a.verb == kWait || a.verb == kStart || (a.verb == kRestart && a.result == EBUSY);
  };
  return !(only_reads(x) && only_reads(y));
}
inline bool conflicting(const Access& x, const Access& y) {
  const auto only_reads = [](const Access& a) { return a.verb == kWait || a.verb == kStart; };
  return !(only_reads(x) && only_reads(y));
}

// A wait is over only while the host is down; it ends and fails only while it is up.
inline bool co_enabled(const Access& x, const Access& y) {
  const auto ends = [](const Access& a) { return a.verb == kEnd || a.verb == kFail; };
  return !(x.verb == kWait && ends(y)) && !(y.verb == kWait && ends(x));
}

// The actors of an incarnation do not exist before it does.
inline bool is_there(const State& state, const Access& access) {
  return access.verb != kStart || incarnation(state.object(access.object)) >= access.argument;
}

inline void edges(const Access& access, const EdgeVisitor& visit) {
  constexpr std::uint32_t kOfEnd = 0, kOfRestart = 1;
  if (access.verb == kEnd) visit(Edge::kRelease, kOfEnd);
  if (access.verb == kWait && access.result == kEnded) visit(Edge::kAcquire, kOfEnd);
  if (access.verb == kRestart && access.result == 0) visit(Edge::kRelease, kOfRestart);
  if (access.verb == kStart) visit(Edge::kAcquire, kOfRestart);
}

inline std::string operation_text(const Narrator& narrator, const Operation& operation) {
  const std::string object = narrator.object_text(operation[0].object);
  switch (operation[0].verb) {
    case kStart:
      return "start";
    case kEnd:
      return "end";
    case kFail:
      return object + " fails";
    case kRestart:
      return "restart " + object;
    default:
      return "wait for " + object +
             (operation.result() == kNoResult ? ""
              : operation.result() == kFailed ? ": it has failed"
                                              : ": it has ended");
  }
}
inline std::string waiting_text(const Narrator& narrator, const State&, ActorId, const Access& access) {
  return "waits until " + narrator.object_text(access.object) + " ends or fails";
}
inline std::string object_text(const Narrator& narrator, ObjectId object) { return narrator.host_text(object); }
inline constexpr Words kWords{.operation = operation_text, .waiting = waiting_text, .object = object_text};

inline constexpr Primitive kPrimitive{.name = "host",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = dependent,
                                      .conflicting = conflicting,
                                      .co_enabled = co_enabled,
                                      .edges = edges,
                                      .is_there = is_there,
                                      .traits = {.may_stay_away = bit_of_verb(kFail),
                                                 .ends_host = bit_of_verb(kEnd) | bit_of_verb(kFail),
                                                 .is_failure = bit_of_verb(kFail)},
                                      .words = &kWords};

}  // namespace crashcut::scheduler::host
