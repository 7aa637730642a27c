// x86 memory for the scheduler: which accesses of threads and of their store buffers commute while crashes matter.
//
// A thread is an actor, and so is each entry of its store buffer: the thread's "push" makes the entry, and the entry's
//   only step is "leave", the moment at which it reaches the cache. So all schedules are all orders of both, and x86's
//   store buffering is the order in which an entry leaves late.
// Objects: a *place* is a line of persistent memory or a word of ordinary memory; a *buffer* is a thread's own; the
//   *fences* are one object. They are told apart by their verbs. The values are the recorder's (pmem/recorder.h), not
//   kept here: what is kept decides who can run. Nothing here waits for a value.
// Models: pmem/store_buffer.h, entry by entry: stores, clflush, sfence and marks leave in order, the words of a
//   wide store in any order, non-temporal stores in any order but for the same word. A clflushopt is no entry: it
//   takes its place by itself, together with the entry that it waits for.
// A compare-exchange that fails is a load: it stores nothing. Whether it fails is foreseen by the value of memory that
//   its operation has (scheduler/primitives/memory.h). Where that is not known, it counts as a store.
// Invariants: the accesses of an operation do not depend on what other actors did since the actor's last step.
#pragma once

#include <algorithm>
#include <string>
#include <tuple>

#include "scheduler/primitive.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/words.h"

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
  kStore,  // an entry leaves, or a locked instruction stores
  kFlush,  // clflush leaves the buffer; clflushopt and clwb are executed
  // Of a buffer. The argument is the number of the entry, or of the first one, from 0.
  kPush,
  kLeave,
  kAwaitEmpty,  // mfence and locked instructions
  // Of the fences.
  kLeaveFence,     // an sfence leaves the buffer: clflushopts of any lines that wait for it take their place
  kStoreAnywhere,  // a store to persistent memory, whatever the line
  kTurn,           // where one schedule is run: threads take turns before an atomic access, which itself is no step
};
inline constexpr const char* kVerbs[] = {"load",        "store",       "flush",          "push", "leave",
                                         "await empty", "leave fence", "store anywhere", "turn"};

// What orders an entry among those of its buffer. The words have numbers of the caller's; the words of one wide store
// follow one another.
struct Entry {
  enum Kind : std::uint8_t { kStore, kNonTemporal, kFlushOrMark, kSfence };
  Kind kind = kStore;
  std::uint8_t group = 0;  // of a store in several pieces, differs from those of its neighbours; 0: alone
  std::uint32_t first_word = 0, last_word = 0;

  std::int64_t to_number() const {
    return static_cast<std::int64_t>(std::uint64_t{last_word} << 34 | std::uint64_t{first_word} << 10 |
                                     std::uint64_t{group} << 2 | kind);
  }
  static Entry from_number(std::int64_t number) {
    const auto n = static_cast<std::uint64_t>(number);
    return {static_cast<Kind>(n & 3), static_cast<std::uint8_t>(n >> 2), static_cast<std::uint32_t>(n >> 10) & 0xffffff,
            static_cast<std::uint32_t>(n >> 34) & 0xffffff};
  }
  bool is_write() const { return kind == kStore || kind == kNonTemporal; }
};

// Whether the later entry of a buffer must leave after the earlier one.
inline bool is_kept(const Entry& earlier, const Entry& later) {
  if (earlier.kind == Entry::kSfence || later.kind == Entry::kSfence) return true;
  if (earlier.kind == Entry::kNonTemporal || later.kind == Entry::kNonTemporal) {
    return earlier.is_write() && later.is_write() && earlier.first_word <= later.last_word &&
           later.first_word <= earlier.last_word;
  }
  return earlier.group == 0 || earlier.group != later.group;
}

// What is kept of a buffer: its entries from the first one on that has not left, whether each has left, and how many
// have not; and the number of the first of them.
inline auto& entries(auto& o) { return o.lists[0]; }
inline auto& has_left(auto& o) { return o.lists[1]; }
inline auto& waiting(auto& o) { return o.numbers[0]; }
inline auto& first_kept(auto& o) { return o.numbers[1]; }

// What is kept of a place: whether something was stored there whose value memory (below) was not told.
inline auto& has_unknown_value(auto& o) { return o.numbers[0]; }

// Results of stores. Of other accesses: 0, which is neither.
enum Result : std::int64_t { kStored = 1, kComparedOnly };

// Of the thread, or of an entry of its buffer. Access::offset may say where in the place it is, for words.
inline Access access(ObjectId object, Verb verb, std::uint8_t thread, std::int64_t argument = 0) {
  Access a{object, verb, argument};
  a.order = thread;
  return a;
}
// `pieces` entries from number `first` on: one for each word if there are several.
inline Access push(ObjectId buffer, std::uint8_t thread, std::int64_t first, const Entry& entry, std::uint8_t pieces) {
  Access a = access(buffer, kPush, thread, first);
  a.expected = entry.to_number();
  a.bytes = pieces;
  return a;
}
inline Access leave(ObjectId buffer, std::uint8_t thread, std::int64_t number, const Entry& entry) {
  Access a = access(buffer, kLeave, thread, number);
  a.expected = entry.to_number();
  return a;
}

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  const Object& o = state.object(access.object);
  if (access.verb == kAwaitEmpty) return waiting(o) == 0;
  if (access.verb != kLeave) return true;
  if (access.argument < first_kept(o)) return false;
  const auto number = static_cast<std::size_t>(access.argument - first_kept(o));
  if (number >= entries(o).size() || has_left(o)[number]) return false;
  for (std::size_t i = 0; i < number; ++i) {
    if (!has_left(o)[i] && is_kept(Entry::from_number(entries(o)[i]), Entry::from_number(entries(o)[number])))
      return false;
  }
  return true;
}

// Of an access that is a store, unless it turns out to be a compare-exchange that fails. Each operation tells its value
// once, behind its accesses of places.
inline Result result_of_store(State& state, const Operation& operation, const Access& access) {
  namespace memory = scheduler::memory;
  const auto value = std::find_if(operation.begin(), operation.end(), [](const Access& a) {
    return primitive_of(a.object) == scheduler::PrimitiveId::kMemory;
  });
  if (value == operation.end()) return has_unknown_value(state.object(access.object)) = 1, kStored;
  // Asking for an object may move the others.
  const bool has_unknown = has_unknown_value(state.object(access.object)) != 0;
  const Object& word = state.object(value->object);
  const bool is_foreseen = !has_unknown && memory::is_known(word, *value) && !value->is_observed;
  if (value->verb != memory::kCompareExchange || !is_foreseen) return kStored;
  const std::int64_t found = memory::value_in(memory::content(word), *value);
  return found == memory::low_bits(value->expected, value->bytes) ? kStored : kComparedOnly;
}

inline std::int64_t apply(State& state, ActorId, const Operation& operation, const Access& access) {
  if (access.verb == kStore) return result_of_store(state, operation, access);
  if (access.verb == kStoreAnywhere) {
    const bool stores_nothing = std::any_of(operation.begin(), operation.end(), [&](const Access& a) {
      return primitive_of(a.object) == primitive_of(access.object) && a.verb == kStore && a.result == kComparedOnly;
    });
    return stores_nothing ? kComparedOnly : kStored;
  }
  Object& o = state.object(access.object);
  if (access.verb == kPush) {
    Entry entry = Entry::from_number(access.expected);
    for (std::uint8_t i = 0; i < access.bytes; ++i) {
      if (access.bytes > 1) entry.last_word = entry.first_word = Entry::from_number(access.expected).first_word + i;
      entries(o).push_back(entry.to_number());
      has_left(o).push_back(0);
      ++waiting(o);
    }
  } else if (access.verb == kLeave) {
    has_left(o)[static_cast<std::size_t>(access.argument - first_kept(o))] = 1;
    --waiting(o);
    const auto gone = std::find(has_left(o).begin(), has_left(o).end(), 0) - has_left(o).begin();
    entries(o).erase(entries(o).begin(), entries(o).begin() + gone);
    has_left(o).erase(has_left(o).begin(), has_left(o).begin() + gone);
    first_kept(o) += gone;
  }
  return 0;
}

inline bool are(const Access& x, const Access& y, Verb one, Verb other) {
  return (x.verb == one && y.verb == other) || (x.verb == other && y.verb == one);
}

inline bool conflicting(const Access& x, const Access& y) {
  // An entry leaves after it was pushed. Other pushes go to the other end of the buffer.
  if (are(x, y, kPush, kLeave)) {
    const auto& [push, leave] = x.verb == kPush ? std::tie(x, y) : std::tie(y, x);
    return leave.argument >= push.argument && leave.argument < push.argument + push.bytes;
  }
  if (x.verb == kLeave && y.verb == kLeave) {
    const auto& [earlier, later] = x.argument < y.argument ? std::tie(x, y) : std::tie(y, x);
    return is_kept(Entry::from_number(earlier.expected), Entry::from_number(later.expected));
  }
  if (are(x, y, kLeave, kAwaitEmpty)) return true;
  // A clflushopt that waited for the sfence takes its place before the other thread's store or after it.
  if (are(x, y, kLeaveFence, kStoreAnywhere)) return x.order != y.order;
  if (x.verb >= kPush || y.verb >= kPush) return false;
  // A thread's load of what waits in its own buffer sees that, and the same once it has left: nobody else stored in
  // between, since the two steps are neighbours. A clflushopt takes its place after both its execution and the last
  // store of its thread to the line: in either order that is the same place. Entries of one buffer that must keep their
  // order do so by the buffer.
  if (x.order == y.order) return false;
  // Two stores are the order of a line's versions; a load tells which store it saw, and after a crash so does a line:
  // the whole line, not only the bytes, because its stores persist in order. A flush covers the stores before it.
  if (x.verb == kStore || y.verb == kStore) return true;
  // Loads change nothing. Neither of two flushes changes what the other one covers.
  return false;
}

inline bool is_store(const Access& x) { return x.verb == kStore || x.verb == kStoreAnywhere; }

// What stores nothing commutes with loads and flushes, and with an sfence that leaves.
inline bool dependent(const Access& x, const Access& y) {
  if (x.result == kComparedOnly && !(is_store(y) && y.result != kComparedOnly)) return false;
  if (y.result == kComparedOnly && !(is_store(x) && x.result != kComparedOnly)) return false;
  return conflicting(x, y);
}

// ---- words

inline std::string place_text(const scheduler::Narrator& narrator, const Operation& operation) {
  for (const Access& access : operation) {
    if (access.verb == kStore || access.verb == kFlush || access.verb == kLoad)
      return " " + narrator.place_text(access.object, access.offset);
  }
  return "";
}

inline std::string operation_text(const scheduler::Narrator& narrator, const Operation& operation) {
  const Access& first = operation[0];
  constexpr const char* kPushed[] = {"store: it waits in the store buffer",
                                     "non-temporal store: it waits to be written",
                                     "clflush: it waits in the store buffer", "sfence: it waits in the store buffer"};
  constexpr const char* kLeft[] = {"a store leaves the store buffer:", "a non-temporal store is written:",
                                   "a clflush leaves the store buffer:", "an sfence leaves the store buffer"};
  switch (first.verb) {
    case kLoad:
      return "load" + place_text(narrator, operation);
    case kStore:
      return "store" + place_text(narrator, operation);
    case kFlush:
      return "clflushopt or clwb" + place_text(narrator, operation);
    case kPush:
      return kPushed[Entry::from_number(first.expected).kind];
    case kLeave:
      return kLeft[Entry::from_number(first.expected).kind] + place_text(narrator, operation);
    case kAwaitEmpty:
      return operation.size() == 1 ? "mfence, or a call that is one: the store buffer is empty"
                                   : "locked instruction on" + place_text(narrator, operation);
    case kLeaveFence:
      return "sfence";
    case kTurn:
      return "atomic access";
    default:
      return "access to memory";
  }
}
inline std::string waiting_text(const scheduler::Narrator&, const State&, ActorId, const Access& access) {
  return access.verb == kAwaitEmpty ? "waits until its store buffer is empty" : "";
}
inline std::string object_text(const scheduler::Narrator& narrator, ObjectId object) {
  return narrator.place_text(object, 0);
}
inline constexpr scheduler::Words kWords{.operation = operation_text, .waiting = waiting_text, .object = object_text};

inline constexpr scheduler::Primitive kPrimitive{.name = "x86",
                                                 .verbs = kVerbs,
                                                 .enabled = enabled,
                                                 .apply = apply,
                                                 .dependent = dependent,
                                                 .conflicting = conflicting,
                                                 .traits = {.is_memory = true},
                                                 .words = &kWords};

// Its id, in a process in which no other primitive was added before it.
inline scheduler::PrimitiveId primitive() {
  static const scheduler::PrimitiveId id = scheduler::add_primitive(kPrimitive);
  return id;
}

}  // namespace crashcut::pmem::x86
