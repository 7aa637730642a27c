// A line of shared memory for the scheduler: which accesses of the threads of several machines, and of their failures,
// commute.
//
// Threads and the entries of their store buffers are actors, as in pmem/x86_primitive.h, which has the buffers. A
//   line's accesses are steps of these actors. What the line holds is cxl::SharedMemory's; what is kept here decides
//   which machines can run, and whose failure an access would have noticed: that of the machine that has the line
//   dirty, since the access writes it back, or had it dirty when it failed.
// A load that has to choose what a failed machine left asks (scheduler/primitives/answer.h): the caller sets `observed`
//   of the access to the number of possible answers before the step, and "ask" follows in the same operation. Until
//   "decide" gives the line the answer nobody else has access to it, unless the asking machine fails. Then the thread
//   stands before the same access again.
// Memory whose home fails is gone (cxl/shared_memory.h): what a thread executes there looks at the home, and does
// nothing
//   if the home has failed. Entries that leave a buffer do not look: whether they do so before or after the failure,
//   the region is gone.
// Stores of two threads of one machine to one line do not commute, whatever bytes they write: if the machine fails, the
//   device keeps a prefix of them.
#pragma once

#include "pmem/x86_primitive.h"
#include "scheduler/primitive.h"
#include "scheduler/primitives/answer.h"
#include "scheduler/words.h"

namespace crashcut::cxl::line {

using scheduler::Access;
using scheduler::ActorId;
using scheduler::Object;
using scheduler::ObjectId;
using scheduler::Operation;
using scheduler::PrimitiveId;
using scheduler::State;

enum Verb : std::uint8_t {
  kLoad,
  kStore,        // an entry leaves, or a locked instruction is executed
  kStoreWeakly,  // a non-temporal store leaves: clflush does not write it back
  kClflush,      // leaves the buffer
  kClflushopt,   // is executed
  kDecide,
  kTouch,  // a store or clflush is executed, and waits in the buffer from then on
};
inline constexpr const char* kVerbs[] = {"load", "store", "store weakly", "clflush", "clflushopt", "decide", "touch"};

// What is kept of it. Actors and machines are numbers plus one; 0 is none.
inline auto& dirty_by(auto& o) { return o.numbers[0]; }  // the actor that stored last
inline auto& owner(auto& o) { return o.numbers[1]; }     // its machine
inline auto& asker(auto& o) { return o.numbers[2]; }
inline auto& is_weak(auto& o) { return o.numbers[3]; }  // a non-temporal store is among those that made it dirty

inline Access access(ObjectId line, Verb verb, std::uint8_t machine, std::uint8_t thread,
                     bool may_be_poisoned = false) {
  Access a{line, verb, may_be_poisoned};
  a.offset = machine;
  a.order = thread;
  return a;
}
// The same of a line that has a home, which is a host.
inline Access look_at_home(Access access, ObjectId home) {
  access.expected = index(home);
  return access;
}
inline bool has_home(const Access& a) { return a.expected != 0; }
inline ObjectId home_of(const Access& a) {
  return scheduler::make_object_id(PrimitiveId::kHost, static_cast<std::uint32_t>(a.expected));
}

inline bool stores(const Access& a) { return a.verb == kStore || a.verb == kStoreWeakly; }
inline ActorId actor_of(std::int64_t number) { return static_cast<ActorId>(number - 1); }

inline bool enabled(const State& state, ActorId actor, const Operation&, const Access& access) {
  const Object& o = state.object(access.object);
  if (access.verb == kTouch || (has_home(access) && state.has_failed(home_of(access)))) return true;
  return asker(o) == 0 || actor_of(asker(o)) == actor || state.is_gone(actor_of(asker(o)));
}

// Results.
inline constexpr std::int64_t kDone = 0;
inline constexpr std::int64_t kAsked = 1;  // nothing else was done
inline constexpr std::int64_t kMoved = 2;  // the machine that had the line dirty has written it back
inline constexpr std::int64_t kGone = 3;   // nothing was done

inline std::int64_t apply(State& state, ActorId actor, const Operation& operation, const Access& access) {
  const std::int64_t asked_by = asker(state.object(access.object));
  const bool is_gone = has_home(access) && state.look_if_failed(home_of(access));
  if (is_gone && asked_by != 0 && actor_of(asked_by) == actor) asker(state.object(access.object)) = 0;
  if (is_gone) return kGone;
  if (access.verb == kTouch) return kDone;
  if (asked_by != 0 && actor_of(asked_by) != actor) {
    state.look_if_gone(actor_of(asked_by));  // it is, and stays to be looked at
  } else {
    asker(state.object(access.object)) = 0;
  }
  if (access.verb == kDecide) return kDone;
  const std::int64_t machine = access.offset + 1;
  const bool is_flush = access.verb == kClflush || access.verb == kClflushopt;
  const std::int64_t last = dirty_by(state.object(access.object));
  bool has_moved = false;
  if (!is_flush && last != 0 && owner(state.object(access.object)) != machine) {
    // What a failed machine left stays to be looked at until somebody stores.
    has_moved = !state.look_if_gone(actor_of(last)) || (stores(access) && access.observed <= 1);
    if (has_moved) dirty_by(state.object(access.object)) = is_weak(state.object(access.object)) = 0;
  }
  Object& o = state.object(access.object);
  if (access.observed > 1) {
    asker(o) = static_cast<std::int64_t>(index(actor)) + 1;
    for (const Access& a : operation) {
      if (primitive_of(a.object) == PrimitiveId::kAnswer)
        scheduler::answer::possible(state.object(a.object)) = scheduler::answer::bits_below(access.observed);
    }
    return kAsked;
  }
  if (stores(access)) {
    dirty_by(o) = static_cast<std::int64_t>(index(actor)) + 1;
    if (access.verb == kStoreWeakly) is_weak(o) = 1;
    owner(o) = machine;
  }
  if (access.verb == kClflush && dirty_by(o) != 0 && is_weak(o) == 0 && owner(o) == machine) {
    dirty_by(o) = 0;
    has_moved = true;
  }
  return has_moved ? kMoved : kDone;
}

inline bool asks(const Access& a) { return a.observed > 1 || a.verb == kDecide; }

inline bool dependent(const Access& x, const Access& y) {
  // Only the home matters to a touch, and to what found that it has failed; and that is a host.
  if (x.verb == kTouch || y.verb == kTouch) return false;
  if (asks(x) || asks(y)) return true;
  if (x.result == kGone || y.result == kGone) return false;
  // The first of them writes the line back, and is the one to which a failure of the line's owner matters.
  if (x.result == kMoved || y.result == kMoved) return true;
  const auto flushes = [](const Access& a) { return a.verb == kClflush || a.verb == kClflushopt; };
  if (x.order == y.order) {
    // A thread's loads see what waits in its own buffer as they do when it has left, unless the line is poisoned. Its
    // non-temporal stores are in no order with its flushes.
    if (flushes(x) || flushes(y)) return stores(x) || stores(y);
    return x.argument != 0 && x.verb != y.verb;
  }
  // A flush of another machine's does nothing to the line.
  if (flushes(x) || flushes(y)) return x.offset == y.offset && (stores(x) || stores(y));
  return stores(x) || stores(y);
}

inline bool conflicting(const Access&, const Access&) { return true; }

inline std::string operation_text(const scheduler::Narrator& narrator, const Operation& operation) {
  const Access& first = operation[0];
  const bool is_locked = first.verb == kStore && operation.size() > 1;
  const std::string what = is_locked                    ? "locked instruction on"
                           : first.verb == kStoreWeakly ? "non-temporal store to"
                           : first.verb == kDecide      ? "learn what is left of"
                           : first.verb == kTouch       ? "come to"
                                                        : kVerbs[first.verb];
  const std::string asks = first.result == kGone  ? ", which is gone"
                           : (first.observed > 1) ? ": what is left of it depends on the failure"
                                                  : "";
  return what + " " + narrator.object_text(first.object) + asks;
}
inline std::string object_text(const scheduler::Narrator& narrator, ObjectId object) {
  return "line " + narrator.place_text(object, 0);
}
inline constexpr scheduler::Words kWords{.operation = operation_text, .object = object_text};

inline constexpr scheduler::Primitive kPrimitive{.name = "line",
                                                 .verbs = kVerbs,
                                                 .enabled = enabled,
                                                 .apply = apply,
                                                 .dependent = dependent,
                                                 .conflicting = conflicting,
                                                 .traits = {.is_memory = true},
                                                 .words = &kWords};

// Its id, in a process in which no other primitive but that of store buffers was added before it.
inline PrimitiveId primitive() {
  pmem::x86::primitive();
  static const PrimitiveId id = scheduler::add_primitive(kPrimitive);
  return id;
}

}  // namespace crashcut::cxl::line
