// Signals between threads. One object belongs to the process: what each thread blocks, which signals are pending for
// which thread, which are ignored. Each thread has an object of its own besides. Every step of the thread touches it,
// since a handler may run between any two steps.
//
// If a signal has come to a thread, its next operation is not done (State, operation.h): the operation's result is the
//   signal. The thread handles it and stands before the same operation again.
// "deliver" is a step of an actor of its own, one for each thread. A signal may come at any time while the thread does
//   not block it, so every schedule is tried. A signal for the process goes to any thread that does not block it or
//   that waits for it. If several are pending, those of the thread come first, then the lowest number, as in Linux.
// A thread that sends itself a signal, or blocks less than before, gets what is pending in that very step: the call
//   does not return before the handler has run. So does a thread that sends a signal to the process if no other thread
//   would take it.
#pragma once

#include <algorithm>
#include <bit>
#include <cerrno>

#include "scheduler/primitive.h"
#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/timer.h"

namespace crashcut::scheduler::signal {

enum Verb : std::uint8_t {
  // Of the process's object; `expected` has the thread that it is about, or kAnyThread.
  kSend,
  kDeliver,
  kSetMask,
  kExpect,
  kWait,
  kPending,
  kReadable,
  kAction,
  kAddThread,
  kRemoveThread,
  // Of a thread's.
  kPass,
  kLeave,
  kShut,
  kLetIn,
  kSuspend,
  kInterrupt,
};
inline constexpr const char* kVerbs[] = {"send",     "deliver", "set mask",   "expect",        "wait", "pending",
                                         "readable", "action",  "add thread", "remove thread", "pass", "leave",
                                         "shut",     "let in",  "suspend",    "interrupt"};
inline constexpr std::int64_t kAnyThread = -1;
inline constexpr std::int64_t kOfProcess = 256;  // in a result: the signal was pending for the process
inline constexpr std::int64_t kNotKept = 512;    // in a result of "send": it is ignored, or pending already
inline constexpr std::size_t kSignalsEnd = 65;
inline constexpr std::int64_t kFirstQueued = 32;  // of these each that is sent is kept
enum Field : std::size_t { kLife, kMask, kExpected, kFields };
enum Life : std::int64_t { kAsAtStart, kLives, kIsOver };

inline std::int64_t bit_of(std::int64_t number) { return static_cast<std::int64_t>(std::uint64_t{1} << (number - 1)); }

// --- what is kept of the process
// How many threads there are from the start: the first so many actors.
inline auto& first_threads(auto& process) { return process.numbers[0]; }
// Sets of signals: those that are ignored, those whose handler is used once.
inline auto& ignored(auto& process) { return process.numbers[1]; }
inline auto& used_once(auto& process) { return process.numbers[2]; }
// First kSignalsEnd masks, what the handler of each signal blocks; then kFields numbers a thread, by its actor.
inline auto& table(auto& process) { return process.lists[0]; }
// Packed, ascending.
inline auto& pending(auto& process) { return process.lists[1]; }
// --- what is kept of a thread
// Whether a handler may begin now.
inline auto& lets_in(auto& thread) { return thread.numbers[0]; }
// What it blocks.
inline auto& mask(auto& thread) { return thread.numbers[1]; }
// The signal that came, until it is handled; or 0.
inline auto& came(auto& thread) { return thread.numbers[2]; }

inline Access about(ObjectId process, Verb verb, std::int64_t thread, std::int64_t argument = 0) {
  Access a{process, verb, argument};
  a.expected = thread;
  return a;
}
// What a signal does from now on; `mask` is what its handler blocks.
enum Disposition : std::int64_t { kDefault, kIgnored, kHandled, kHandledOnce };
inline Access action(ObjectId process, std::int64_t number, Disposition disposition, std::int64_t mask) {
  Access a{process, kAction, number | disposition << 8};
  a.expected = mask;
  return a;
}

// Signals to a thread: a step of another actor's. `own` is the thread's object.
inline Operation delivery(ObjectId process, ObjectId own, std::int64_t thread) {
  return Operation(about(process, kDeliver, thread)).add(about(own, kInterrupt, thread));
}

inline std::int64_t& field(Object& p, std::int64_t thread, Field f) {
  const std::size_t at = kSignalsEnd + static_cast<std::size_t>(thread) * kFields + f;
  if (table(p).size() <= at) table(p).resize(kSignalsEnd + (static_cast<std::size_t>(thread) + 1) * kFields);
  return table(p)[at];
}
inline bool lives(Object& p, std::int64_t thread) {
  const std::int64_t life = field(p, thread, kLife);
  return life == kLives || (life == kAsAtStart && thread < first_threads(p));
}
inline std::int64_t mask_of_handler(const Object& p, std::int64_t number) {
  return table(p).size() < kSignalsEnd ? 0 : table(p)[static_cast<std::size_t>(number)];
}

// --- pending signals: the thread, the signal. A signal is pending once, unless it is a queued one
inline std::int64_t pack(std::int64_t thread, std::int64_t number) { return (thread + 1) << 8 | number; }
inline bool is_pending(const Object& p, std::int64_t thread, std::int64_t number) {
  return std::binary_search(pending(p).begin(), pending(p).end(), pack(thread, number));
}
inline std::int64_t pending_for(const Object& p, std::int64_t thread) {
  std::int64_t all = 0;
  for (const std::int64_t entry : pending(p)) all |= entry >> 8 == thread + 1 ? bit_of(entry & 0xff) : 0;
  return all;
}
// The first of these that is pending for the thread, else for the process; 0: none.
inline std::int64_t first_of(const Object& p, std::int64_t thread, std::int64_t wanted) {
  const std::int64_t own = pending_for(p, thread) & wanted, shared = pending_for(p, kAnyThread) & wanted;
  const std::int64_t from = own != 0 ? own : shared;
  if (from == 0) return 0;
  return (std::countr_zero(static_cast<std::uint64_t>(from)) + 1) | (own != 0 ? 0 : kOfProcess);
}
inline void take(Object& p, std::int64_t thread, std::int64_t found) {
  pending(p).erase(std::lower_bound(pending(p).begin(), pending(p).end(),
                                    pack((found & kOfProcess) != 0 ? kAnyThread : thread, found & 0xff)));
}

// Of these, those that a thread would find: what it reads from a signalfd, and is told when it polls one.
inline std::int64_t readable(const Object& p, const Access& a) {
  return (pending_for(p, a.expected) | pending_for(p, kAnyThread)) & a.argument;
}
// Whether the operation polls a signalfd that is ready.
inline bool is_readable(const State& state, const Operation& operation) {
  return std::any_of(operation.begin(), operation.end(), [&](const Access& a) {
    return primitive_of(a.object) == PrimitiveId::kSignal && a.verb == kReadable &&
           readable(state.object(a.object), a) != 0;
  });
}

// The object of the thread in the same operation.
inline ObjectId own_object_in(const Operation& operation) {
  for (const Access& a : operation) {
    if (primitive_of(a.object) == PrimitiveId::kSignal && a.verb >= kPass) return a.object;
  }
  return ObjectId{};
}

inline bool enabled(const State& state, ActorId, const Operation& operation, const Access& access) {
  switch (access.verb) {
    case kDeliver:
      return first_of(state.object(access.object), access.expected, ~mask(state.object(own_object_in(operation)))) != 0;
    case kWait:
      return (access.order & 1) != 0 || timer::is_fired(state, operation) ||
             cancellation::is_heeded(state, operation) ||
             first_of(state.object(access.object), access.expected, access.argument) != 0;
    case kInterrupt:
      return lets_in(state.object(access.object)) != 0 && came(state.object(access.object)) == 0;
    case kSuspend:
      return cancellation::is_heeded(state, operation);  // else it ends by a handler alone
    default:
      return true;
  }
}

// The thread begins the handler, if there is one: what that blocks is blocked, and one that is used once is used.
inline std::int64_t deliver(State& state, const Operation& operation, const Access& access) {
  Object& p = state.object(access.object);
  Object& own = state.object(own_object_in(operation));
  const std::int64_t found = first_of(p, access.expected, ~mask(own));
  if (found == 0) return 0;
  take(p, access.expected, found);
  const std::int64_t number = found & 0xff;
  mask(own) |= mask_of_handler(p, number);
  field(p, access.expected, kMask) = mask(own);
  if ((used_once(p) & bit_of(number)) != 0) {
    used_once(p) &= ~bit_of(number);
    table(p)[static_cast<std::size_t>(number)] = 0;
  }
  return found;
}

inline bool is_wanted_by_others(Object& p, std::int64_t sender, std::int64_t number) {
  const auto known = static_cast<std::int64_t>((std::max(table(p).size(), kSignalsEnd) - kSignalsEnd) / kFields);
  for (std::int64_t t = 0; t < std::max(known, first_threads(p)); ++t) {
    if (t == sender || !lives(p, t)) continue;
    if ((field(p, t, kMask) & bit_of(number)) == 0 || (field(p, t, kExpected) & bit_of(number)) != 0) return true;
  }
  return false;
}

// The argument is the signal's number.
inline std::int64_t send(State& state, ActorId actor, const Operation& operation, const Access& access) {
  Object& p = state.object(access.object);
  const std::int64_t thread = access.expected, number = access.argument, sender = index(actor);
  if (thread != kAnyThread && !lives(p, thread)) return kNotKept;
  // What is blocked is kept, though it is ignored: that may change.
  const bool is_blocked = thread == kAnyThread ? false : (field(p, thread, kMask) & bit_of(number)) != 0;
  if ((ignored(p) & bit_of(number)) != 0 && !is_blocked) return kNotKept;
  const bool is_kept = number >= kFirstQueued || !is_pending(p, thread, number);
  if (is_kept)
    pending(p).insert(std::upper_bound(pending(p).begin(), pending(p).end(), pack(thread, number)),
                      pack(thread, number));
  const bool is_own = thread == sender || (thread == kAnyThread && !is_wanted_by_others(p, sender, number));
  const bool takes = is_own && (mask(state.object(own_object_in(operation))) & bit_of(number)) == 0;
  Access own = access;
  own.expected = sender;
  return (takes ? deliver(state, operation, own) : 0) | (is_kept ? 0 : kNotKept);
}

inline void set_action(Object& p, const Access& access) {
  const std::int64_t number = access.argument & 0xff, disposition = access.argument >> 8;
  if (table(p).size() < kSignalsEnd) table(p).resize(kSignalsEnd);
  const bool is_handled = disposition >= kHandled;
  table(p)[static_cast<std::size_t>(number)] = is_handled ? access.expected : 0;
  ignored(p) = disposition == kIgnored ? ignored(p) | bit_of(number) : ignored(p) & ~bit_of(number);
  used_once(p) = disposition == kHandledOnce ? used_once(p) | bit_of(number) : used_once(p) & ~bit_of(number);
  // What is pending and is ignored from now on is gone.
  if (disposition == kIgnored) std::erase_if(pending(p), [&](std::int64_t entry) { return (entry & 0xff) == number; });
}

inline std::int64_t apply_to_thread(Object& own, const Access& access) {
  switch (access.verb) {
    case kLeave:
      mask(own) = access.argument;
      return 0;
    case kShut:
      lets_in(own) = 0;
      return 0;
    case kLetIn:
      lets_in(own) = 1;
      return 0;
    default:
      return 0;
  }
}

inline bool takes_from_process(const Access& a) {
  return a.verb != kPending && a.verb != kReadable && a.result > 0 && (a.result & kOfProcess) != 0;
}

// Of two about the process.
inline bool meet(const Access& x, const Access& y, bool any_state) {
  const auto is = [&](Verb verb) { return x.verb == verb || y.verb == verb; };
  const auto both = [&](Verb verb) { return x.verb == verb && y.verb == verb; };
  const auto number = [](const Access& a) { return a.argument & 0xff; };
  if (is(kAction)) {
    // A thread that sends does not look at the action of another signal, nor at which threads there are.
    const Access& other = x.verb == kAction ? y : x;
    if (other.verb == kAction) return number(x) == number(y);
    if (other.verb == kSend && (any_state || (other.result & 0x1ff) == 0)) return number(x) == number(y) || any_state;
    return other.verb != kExpect && other.verb != kAddThread;
  }
  if (is(kExpect)) {
    // A thread that sends to the process looks at which threads wait for a signal.
    const Access& other = x.verb == kExpect ? y : x;
    return other.verb == kSend && other.expected == kAnyThread;
  }
  if (both(kSend)) {
    // Different signals, or different targets; but a thread that gets a signal at once may get that of the other.
    if (any_state || ((x.result | y.result) & 0x1ff) != 0) return true;
    return x.expected == y.expected && number(x) == number(y);
  }
  const auto is_about_all = [](const Access& a) { return a.verb == kSend && a.expected == kAnyThread; };
  if (is_about_all(x) || is_about_all(y)) return true;
  if (x.expected == y.expected) return true;
  // Two threads share what is pending for the process. A thread that found nothing would have found what another took.
  const auto looks = [](const Access& a) {
    return a.verb == kDeliver || a.verb == kSetMask || a.verb == kWait || a.verb == kPending || a.verb == kReadable ||
           a.verb == kSend;
  };
  if (!looks(x) || !looks(y)) return false;
  // A handler that is used once is used by one of two.
  const auto handled = [](const Access& a) {
    return a.verb != kWait && a.verb != kPending && a.verb != kReadable && a.result > 0 ? a.result & 0xff : 0;
  };
  return any_state || takes_from_process(x) || takes_from_process(y) || (handled(x) != 0 && handled(x) == handled(y));
}

inline bool both_ways(const Access& x, const Access& y, bool any_state) {
  // A thread's own steps, and the one that interrupts them.
  if (x.verb >= kPass) return (x.verb == kInterrupt) != (y.verb == kInterrupt);
  return meet(x, y, any_state);
}

}  // namespace crashcut::scheduler::signal
