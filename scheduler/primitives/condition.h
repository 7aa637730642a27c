// A condition variable. A wait is two steps of its thread: "enqueue" with the unlock of the mutex, then "wake" with its
// lock. Where threads can be cancelled, or wait for the mutex in line, the lock is a third step: a signal may come,
// then the cancellation, then the mutex. To stop waiting and to take the mutex are two things: a thread whose time has
// run out may still have to wait for the mutex, and meanwhile others set what it waits for, and signal. So where a wait
// ends without a signal, the thread leaves the queue in a step before "wake": by "time out", a step of its timer, or,
// where it wakes for nothing, by "enqueue" itself (stir.h). Where a signal ends the wait, nobody can tell at which
// moment between the signal and the lock the thread took it: one step will do.
//   POSIX lets a waiter that times out consume a signal. glibc passes it on (__condvar_cancel_waiting in
//   nptl/pthread_cond_wait.c), and so does this.
// Object: as of waiters.h.
#pragma once

#include <cerrno>

#include "scheduler/primitive.h"
#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/stir.h"
#include "scheduler/waiters.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::condition {

enum Verb : std::uint8_t { kEnqueue, kWake, kTimeOut, kSignal, kBroadcast, kDestroy };
inline constexpr const char* kVerbs[] = {"enqueue", "wake", "time out", "signal", "broadcast", "destroy"};
inline constexpr std::int64_t kWokeForNothing = 1;

inline Access access(ObjectId condition, Verb verb) { return {condition, verb}; }
// The argument is the thread that waits.
inline Access enqueue(ObjectId condition, ActorId waiter) { return {condition, kEnqueue, index(waiter)}; }
inline Access time_out(ObjectId condition, ActorId waiter) { return {condition, kTimeOut, index(waiter)}; }

// It was destroyed before.
inline bool never_came(const Object& c, ActorId actor) {
  return c.is_destroyed && waiters::place_of(c, actor) >= waiters::states(c).size();
}

inline bool enabled(const State& state, ActorId actor, const Operation& operation, const Access& access) {
  const Object& c = state.object(access.object);
  if (access.verb == kTimeOut)
    return waiters::may_leave(c, waiters::place_of(c, static_cast<ActorId>(access.argument)));
  if (access.verb != kWake || never_came(c, actor)) return true;
  return waiters::may_wake(c, waiters::place_of(c, actor)) || cancellation::is_heeded(state, operation);
}

inline std::int64_t wake(Object& c, std::size_t place, bool is_cancelled) {
  if (is_cancelled) return waiters::leave(c, place), ECANCELED;
  const std::int64_t why = waiters::states(c)[place];
  waiters::wake(c, place);
  return why == waiters::kByTime ? ETIMEDOUT : why == waiters::kForNothing ? kWokeForNothing : 0;
}

inline std::int64_t apply(State& state, ActorId actor, const Operation& operation, const Access& access) {
  Object& c = state.object(access.object);
  switch (access.verb) {
    case kEnqueue:
      waiters::enqueue(c, actor);
      if (stir::is_stirred(state, operation)) waiters::states(c).back() = waiters::kForNothing;
      return 0;
    case kTimeOut:
      waiters::states(c)[waiters::place_of(c, static_cast<ActorId>(access.argument))] = waiters::kByTime;
      return 0;
    case kSignal:
      waiters::signal(c);
      return 0;
    case kBroadcast:
      waiters::signal_all(c);
      return 0;
    case kDestroy:
      return waiters::has_sleeper(c) ? kDestroyWhileWaitedFor : 0;  // a thread that was woken may leave later
    default:
      return never_came(c, actor) ? kUseAfterDestroy
                                  : wake(c, waiters::place_of(c, actor), cancellation::is_heeded(state, operation));
  }
}

// A wake-up of a thread that had left the queue before.
inline bool had_left(const Access& x) {
  return x.verb == kWake && (x.result == ETIMEDOUT || x.result == kWokeForNothing);
}

inline bool conflicting(const Access& x, const Access& y) {
  const auto signals = [](const Access& a) { return a.verb == kSignal || a.verb == kBroadcast; };
  // Signals and broadcasts among themselves: each wakes as many as it would after the other.
  if (signals(x) && signals(y)) return false;
  // Whether a thread can leave depends on the signals that it may take: others come and leave without touching these.
  const auto comes_or_leaves = [](const Access& a) { return a.verb == kEnqueue || a.verb == kTimeOut; };
  if (comes_or_leaves(x) && comes_or_leaves(y))
    return x.argument == y.argument || (x.verb == kEnqueue && y.verb == kEnqueue);
  return true;
}

// A thread that has left the queue is none that a signal could wake, nor does it keep one from others. In another state
// it may not have left: then it takes a signal that others want.
inline bool dependent(const Access& x, const Access& y) { return !had_left(x) && !had_left(y) && conflicting(x, y); }

inline std::string wake_text(const Narrator& narrator, const Operation& operation) {
  const std::int64_t result = operation.result();
  std::string text = "wake up from " + narrator.object_text(operation[0].object) +
                     (result == ETIMEDOUT         ? " (timeout)"
                      : result == kWokeForNothing ? " (spurious)"
                                                  : "");
  for (const Access& access : operation) {
    if (primitive_of(access.object) != PrimitiveId::kMutex) continue;
    text += ", locking " + narrator.object_text(access.object);
    break;
  }
  return text;
}
inline std::string operation_text(const Narrator& narrator, const Operation& operation) {
  if (operation[0].verb == kWake) return wake_text(narrator, operation);
  if (operation[0].verb != kEnqueue) return plain_text(narrator, operation[0]);
  return "wait for " + narrator.object_text(operation[0].object) + ", unlocking " +
         narrator.object_text(operation[1].object);
}
inline std::string waiting_text(const Narrator& narrator, const State&, ActorId, const Access& access) {
  return "waits for " + narrator.object_text(access.object) + ", which nobody signals";
}
inline constexpr Words kWords{.operation = operation_text, .waiting = waiting_text};

inline constexpr Primitive kPrimitive{
    .name = "condition",
    .verbs = kVerbs,
    .enabled = enabled,
    .apply = apply,
    .dependent = dependent,
    .conflicting = conflicting,
    .destroys = {.verb = kDestroy, .leaving = bit_of_verb(kWake) | bit_of_verb(kTimeOut)},
    .words = &kWords};

}  // namespace crashcut::scheduler::condition
