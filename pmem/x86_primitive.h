// x86 memory for the scheduler: which accesses of threads and of their store buffers commute while crashes matter.
//
// A thread and its store buffer are two actors. A store of the thread is "push"; the buffer's actor takes "leave", the
//   moment at which the store reaches the cache. So all schedules are all orders of both, and x86's store buffering is
//   the order in which the buffer's actor comes late.
// Objects: a *place* is a line of persistent memory or a word of ordinary memory; a *buffer* is a thread's own; the
//   *fences* are one object. They are told apart by their verbs. The values are the recorder's (pmem/recorder.h), not
//   kept here: what is kept decides who can run, and only an empty buffer is ever waited for.
// Models: entries that leave in the order of execution. Does not model: the words of a wide store and non-temporal
//   stores as steps of their own, which may leave in any order. (May miss bugs: another thread sees a part of a
//   wide store.)
// Not for a program that waits for a value: such a loop is the runtime's.
#pragma once

#include "scheduler/primitive.h"

namespace crashcut::pmem::x86 {

using scheduler::Access;
using scheduler::ActorId;
using scheduler::Object;
using scheduler::ObjectId;
using scheduler::Operation;
using scheduler::State;

enum Verb : std::uint8_t {
  // Of a place.
  kLoad,
  kStore,  // it leaves the buffer, or is of a locked instruction
  kFlush,  // clflush leaves the buffer; clflushopt and clwb are executed
  // Of a buffer. The argument of the first two is the entry's number, from 0.
  kPush,
  kLeave,
  kAwaitEmpty,  // mfence and locked instructions
  // Of the fences.
  kLeaveFence,     // an sfence leaves the buffer: clflushopts of any lines that wait for it take their place
  kStoreAnywhere,  // a store to persistent memory, whatever the line
};
inline constexpr const char* kVerbs[] = {"load",  "store",       "flush",       "push",
                                         "leave", "await empty", "leave fence", "store anywhere"};

// What is kept of a buffer.
inline auto& pushed(auto& o) { return o.numbers[0]; }
inline auto& left(auto& o) { return o.numbers[1]; }

// The thread whose access it is, or whose buffer's.
inline Access access(ObjectId object, Verb verb, std::uint32_t thread, std::int64_t argument = 0) {
  Access a{object, verb, argument};
  a.expected = thread;
  return a;
}

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  const Object& o = state.object(access.object);
  if (access.verb == kLeave) return left(o) == access.argument && pushed(o) > access.argument;
  if (access.verb == kAwaitEmpty) return pushed(o) == left(o);
  return true;
}

inline std::int64_t apply(State& state, ActorId, const Operation&, const Access& access) {
  Object& o = state.object(access.object);
  if (access.verb == kPush) ++pushed(o);
  if (access.verb == kLeave) ++left(o);
  return 0;
}

inline bool are(const Access& x, const Access& y, Verb one, Verb other) {
  return (x.verb == one && y.verb == other) || (x.verb == other && y.verb == one);
}

inline bool dependent(const Access& x, const Access& y) {
  // An entry leaves after it was pushed. Other pushes go to the other end of the buffer.
  if (are(x, y, kPush, kLeave)) return x.argument == y.argument;
  if (are(x, y, kLeave, kAwaitEmpty)) return true;
  // A clflushopt that waited for the sfence takes its place before the other thread's store or after it.
  if (are(x, y, kLeaveFence, kStoreAnywhere)) return x.expected != y.expected;
  if (x.verb >= kPush || y.verb >= kPush) return false;
  // A thread's load of what waits in its own buffer sees that, and the same once it has left: nobody else stored in
  // between, since the two steps are neighbours. A clflushopt takes its place after both its execution and the last
  // store of its thread to the line: in either order that is the same place.
  if (x.expected == y.expected) return false;
  // Two stores are the order of a line's versions; a load tells which store it saw, and after a crash so does a line:
  // the whole line, not only the bytes, because its stores persist in order. A flush covers the stores before it.
  if (x.verb == kStore || y.verb == kStore) return true;
  // Loads change nothing. Neither of two flushes changes what the other one covers.
  return false;
}

inline constexpr scheduler::Primitive kPrimitive{.name = "x86",
                                                 .verbs = kVerbs,
                                                 .enabled = enabled,
                                                 .apply = apply,
                                                 .dependent = dependent,
                                                 .conflicting = dependent};

}  // namespace crashcut::pmem::x86
