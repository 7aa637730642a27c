// A thread: created, started, finished; joined or detached.
#pragma once

#include <cerrno>

#include "scheduler/primitive.h"
#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::thread {

enum Verb : std::uint8_t { kCreate, kStart, kExit, kJoin, kDetach, kTryJoin, kTimedJoin };
inline constexpr const char* kVerbs[] = {"create", "start", "exit", "join", "detach", "tryjoin", "timedjoin"};
enum Stage : std::int64_t { kNone, kCreated, kStarted, kFinished };
enum Fate : std::int64_t { kOpen, kJoined, kDetached };

// What is kept of it.
inline auto& stage(auto& o) { return o.numbers[0]; }
inline auto& fate(auto& o) { return o.numbers[1]; }  // whether it was joined or detached

inline Operation access(ObjectId thread, Verb verb) { return Access{thread, verb}; }

inline bool enabled(const State& state, ActorId, const Operation& operation, const Access& access) {
  const Object& thread = state.object(access.object);
  if (cancellation::is_heeded(state, operation)) return true;
  switch (access.verb) {
    case kStart:
      return stage(thread) == kCreated;
    // A mistaken join does not wait.
    case kJoin:
      return stage(thread) == kFinished || fate(thread) != kOpen;
    case kTimedJoin:
      return stage(thread) == kFinished || fate(thread) != kOpen || timer::is_fired(state, operation);
    default:
      return true;
  }
}

inline std::int64_t ask_for_end(Object& thread, const Access& access) {
  if (access.verb == kTryJoin && stage(thread) != kFinished) return EBUSY;
  const bool joins = access.verb != kDetach;
  if (access.verb == kTimedJoin && stage(thread) != kFinished && fate(thread) == kOpen) return ETIMEDOUT;
  if (fate(thread) == kJoined) return joins ? kJoinTwice : kDetachTwice;
  if (fate(thread) == kDetached) return joins ? kJoinOfDetached : kDetachTwice;
  fate(thread) = joins ? kJoined : kDetached;
  return 0;
}

inline std::int64_t apply(State& state, ActorId, const Operation& operation, const Access& access) {
  if (cancellation::is_heeded(state, operation)) return ECANCELED;
  Object& thread = state.object(access.object);
  switch (access.verb) {
    case kCreate:
      stage(thread) = kCreated;
      return 0;
    case kStart:
      stage(thread) = kStarted;
      return 0;
    case kExit:
      stage(thread) = kFinished;
      return 0;
    default:
      return ask_for_end(thread, access);
  }
}

inline bool dependent(const Access& x, const Access& y) {
  const auto is = [&](Verb verb) { return x.verb == verb || y.verb == verb; };
  // Detaching changes the fate, which the thread's own steps neither read nor write.
  if (is(kDetach) && (is(kStart) || is(kExit) || is(kCreate))) return false;
  return true;
}

// Stages follow each other, so of two steps that change the stage only one is ever enabled; nor is a join before the
// end, but for one that does not wait: by mistake, or cancelled.
inline bool co_enabled(const Access& x, const Access& y) {
  const auto is = [&](Verb verb) { return x.verb == verb || y.verb == verb; };
  const auto waited = [](const Access& a) { return a.verb == kJoin && a.result == 0; };
  return !is(kCreate) && !(is(kExit) && (waited(x) || waited(y)));
}

// A thread that nobody created yet stands before nothing.
inline bool is_there(const State& state, const Access& access) {
  return access.verb != kStart || stage(state.object(access.object)) != kNone;
}

inline void edges(const Access& access, const EdgeVisitor& visit) {
  switch (access.verb) {
    case kCreate:
    case kExit:
      return visit(Edge::kRelease, 0);
    case kStart:
      return visit(Edge::kAcquire, 0);
    case kDetach:
      return;
    default:
      if (access.result == 0) visit(Edge::kAcquire, 0);
  }
}

inline std::string operation_text(const Narrator& narrator, const Operation& operation) {
  const Access& first = operation[0];
  return first.verb == kStart ? "start" : first.verb == kExit ? "end" : plain_text(narrator, first);
}
inline std::string waiting_text(const Narrator& narrator, const State&, ActorId, const Access& access) {
  return "waits for the end of " + narrator.object_text(access.object);
}
inline std::string object_text(const Narrator& narrator, ObjectId object) { return narrator.thread_text(object); }
inline bool is_own(const Access& access) { return access.verb == kStart || access.verb == kExit; }
inline constexpr Words kWords{
    .operation = operation_text, .waiting = waiting_text, .object = object_text, .is_own = is_own};

inline constexpr Primitive kPrimitive{.name = "thread",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = dependent,
                                      .conflicting = dependent,
                                      .co_enabled = co_enabled,
                                      .edges = edges,
                                      .is_there = is_there,
                                      .words = &kWords};

}  // namespace crashcut::scheduler::thread
