// A reader-writer lock. A preferred reader or writer, or a thread that waits in line, first takes the step "arrive". A
// thread that only tries does not stand in line: it takes what is free.
#pragma once

#include <algorithm>
#include <cerrno>

#include "scheduler/primitive.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::rwlock {

enum Verb : std::uint8_t { kRead, kWrite, kTryRead, kTryWrite, kTimedRead, kTimedWrite, kUnlock, kDestroy, kArrive };
inline constexpr const char* kVerbs[] = {"rdlock",      "wrlock", "tryrdlock", "trywrlock", "timedrdlock",
                                         "timedwrlock", "unlock", "destroy",   "arrive"};
enum Preference : std::int64_t { kNone, kReaders, kWriters, kInLine, kLastFirst };
enum Unlocked : std::int64_t { kWasReader, kWasWriter };

// What is kept of it.
inline auto& preference(auto& o) { return o.numbers[0]; }
inline auto& writer(auto& o) { return o.numbers[1]; }  // its number plus one, or 0
inline auto& readers(auto& o) { return o.lists[0]; }   // ascending
inline auto& line(auto& o) { return o.lists[1]; }      // the waiting threads, if the preference needs to know them

// The argument says whether the thread waited in line.
inline Access access(ObjectId lock, Verb verb, bool is_in_line = false) { return {lock, verb, is_in_line ? 1 : 0}; }

inline bool is_write(const Access& x) { return x.verb == kWrite || x.verb == kTryWrite || x.verb == kTimedWrite; }
inline bool is_read(const Access& x) { return x.verb == kRead || x.verb == kTryRead || x.verb == kTimedRead; }

inline bool is_try(const Access& x) { return x.verb == kTryRead || x.verb == kTryWrite; }

inline bool is_held_back(const Object& l, std::int64_t self, const Access& access) {
  if (line(l).empty()) return false;
  switch (preference(l)) {
    case kReaders:
      return is_write(access);
    case kWriters:
      return !is_write(access);
    case kInLine:
      return !is_try(access) && line(l).front() != self;
    case kLastFirst:
      return !is_try(access) && line(l).back() != self;
    default:
      return false;
  }
}
inline bool can_take(const Object& l, std::int64_t self, const Access& access) {
  return writer(l) == 0 && !is_held_back(l, self, access) && (!is_write(access) || readers(l).empty());
}
// A thread that holds it for writing and waits for it would wait for ever: it gets EDEADLK, as from glibc.
inline bool is_told(const Object& l, std::int64_t self, const Access& access) {
  return writer(l) == self + 1 && !is_try(access);
}

inline bool enabled(const State& state, ActorId actor, const Operation& operation, const Access& access) {
  const Object& l = state.object(access.object);
  if (!(is_read(access) || is_write(access)) || is_try(access)) return true;
  return can_take(l, index(actor), access) || is_told(l, index(actor), access) || timer::is_fired(state, operation);
}

inline std::int64_t unlock(Object& l, std::int64_t actor) {
  if (writer(l) == actor + 1) return writer(l) = 0, kWasWriter;
  const auto it = std::find(readers(l).begin(), readers(l).end(), actor);
  if (it == readers(l).end()) return writer(l) == 0 && readers(l).empty() ? kUnlockOfUnlocked : kUnlockByNonOwner;
  readers(l).erase(it);
  return kWasReader;
}

inline std::int64_t apply(State& state, ActorId actor, const Operation&, const Access& access) {
  Object& l = state.object(access.object);
  const std::int64_t self = index(actor);
  if (access.verb == kArrive) return line(l).push_back(self), 0;
  if (access.verb == kUnlock) return unlock(l, self);
  if (access.verb == kDestroy) return writer(l) == 0 && readers(l).empty() ? 0 : kDestroyWhileLocked;
  const bool takes = can_take(l, self, access);
  std::erase(line(l), self);
  if (is_told(l, self, access)) return EDEADLK;
  if (!takes) return is_try(access) ? EBUSY : ETIMEDOUT;
  if (is_write(access)) {
    writer(l) = self + 1;
  } else {
    readers(l).insert(std::upper_bound(readers(l).begin(), readers(l).end(), self), self);
  }
  return 0;
}

// Readers do not keep each other from anything: a reader's step needs only that there is no writer, and only changes
// the set of readers. "arrive" does not say for which side, so it depends on all others.
inline bool is_readers(const Access& x) {
  return (is_read(x) && x.result == 0) || (x.verb == kUnlock && x.result == kWasReader);
}
inline bool dependent(const Access& x, const Access& y) {
  // In line, the second of two readers has to wait for the first.
  if (x.argument != 0 && y.argument != 0) return true;
  // Two that found it taken and left have changed nothing.
  return !(is_readers(x) && is_readers(y)) && !(x.result == EBUSY && y.result == EBUSY);
}

// A thread that waits for the lock is enabled only while no writer holds it.
inline bool co_enabled(const Access& x, const Access& y) {
  const auto waits = [](const Access& a) { return a.verb == kRead || a.verb == kWrite; };
  const auto frees = [](const Access& a) { return a.verb == kUnlock && a.result == kWasWriter; };
  return !(waits(x) && frees(y)) && !(waits(y) && frees(x));
}

inline bool holds(const State& state, ActorId actor, const Access& access) {
  const Object& l = state.object(access.object);
  return is_write(access) && std::binary_search(readers(l).begin(), readers(l).end(), std::int64_t{index(actor)});
}

// What readers leave behind is for writers only.
inline void edges(const Access& access, const EdgeVisitor& visit) {
  constexpr std::uint32_t kOfWriters = 0, kOfReaders = 1;
  if (access.verb == kUnlock) {
    visit(Edge::kRelease, access.result == kWasWriter ? kOfWriters : kOfReaders);
  } else if (access.result == 0 && (is_read(access) || is_write(access))) {
    visit(Edge::kAcquire, kOfWriters);
    if (is_write(access)) visit(Edge::kAcquire, kOfReaders);
  }
}

inline std::string operation_text(const Narrator& narrator, const Operation& operation) {
  return plain_text(narrator, operation[0]) + (operation[0].verb == kUnlock ? "" : error_text(operation.result()));
}
inline std::string waiting_text(const Narrator& narrator, const State& state, ActorId, const Access& access) {
  const Object& l = state.object(access.object);
  const std::string waits = "waits for " + narrator.object_text(access.object);
  const auto holder = [&](std::int64_t number) { return narrator.holder_text(static_cast<ActorId>(number)); };
  if (writer(l) != 0) return waits + ", which " + holder(writer(l) - 1) + " holds for writing";
  if (!readers(l).empty()) return waits + ", which " + holder(readers(l)[0]) + " holds for reading";
  return waits + ", where others go first";
}
inline bool is_held_by(const Object& l, ActorId actor) {
  const std::int64_t number = index(actor);
  return writer(l) == number + 1 || std::binary_search(readers(l).begin(), readers(l).end(), number);
}
inline constexpr Words kWords{.operation = operation_text, .waiting = waiting_text, .is_held_by = is_held_by};

inline constexpr Primitive kPrimitive{.name = "rwlock",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = dependent,
                                      .conflicting = dependent,
                                      .co_enabled = co_enabled,
                                      .holds = holds,
                                      .edges = edges,
                                      .destroys = {.verb = kDestroy},
                                      .words = &kWords};

}  // namespace crashcut::scheduler::rwlock
