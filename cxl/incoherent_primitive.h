// A line of memory without coherence for the scheduler: which accesses of the machines commute.
//
// Accesses are those of cxl::IncoherentMemory. What is kept here decides which steps of a cache can be taken: who has a
//   copy, whether it is dirty, and which version of the device's line it is.
// "write back" and "fetch" are steps that a cache takes by itself. They are steps of actors without code, one of each a
//   machine and line. Each of them is taken only where it changes something, so an execution has finitely many of them.
// Two machines meet in the device alone: accesses of different machines commute unless one of them changes the device
//   and the other one reads or changes it. Accesses of one machine meet in its copy, too.
// Where one schedule is run, a cache takes a step by itself just before a step that takes something from what it could
//   have done: matters_before(). Two moments between which nobody did that leave the same to all. Where a second step
//   by itself may follow, that one may be what takes something from the first: all steps of caches that do so gather
//   before one step of somebody else, which has to do with the same line, or with the end of a machine that has it.
#pragma once

#include "cxl/line_primitive.h"
#include "scheduler/dependence.h"
#include "scheduler/primitive.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/words.h"

namespace crashcut::cxl::incoherent {

using scheduler::Access;
using scheduler::ActorId;
using scheduler::Object;
using scheduler::ObjectId;
using scheduler::Operation;
using scheduler::PrimitiveId;
using scheduler::State;

enum Verb : std::uint8_t {
  kLoad,
  kStore,        // leaves the buffer, or a locked instruction is executed
  kStoreWeakly,  // a non-temporal store leaves
  kFlush,        // clflush leaves
  kClean,        // clwb leaves
  kWriteBack,    // by itself
  kFetch,        // by itself
};
inline constexpr const char* kVerbs[] = {"load", "store", "store weakly", "flush", "clean", "write back", "fetch"};

inline Access access(ObjectId line, Verb verb, std::uint8_t machine, std::uint8_t thread) {
  Access a{line, verb};
  a.offset = machine;
  a.order = thread;
  return a;
}

// What is kept of it: the version of the device; of each machine its copy.
inline auto& version(auto& o) { return o.numbers[0]; }
// A copy: the version that it is of, twice, + 2; + 1 if it is dirty; 0: there is none. Above that, the incarnation of
// the machine: one that is restarted has no copy.
inline constexpr std::int64_t kIncarnation = std::int64_t{1} << 48;
inline std::int64_t copy_of(const Object& o, const Access& a, const Operation& operation) {
  const auto& copies = o.lists[0];
  const std::int64_t kept = a.offset < copies.size() ? copies[a.offset] : 0;
  return kept / kIncarnation == operation.incarnation() ? kept % kIncarnation : 0;
}
inline void set_copy(Object& o, const Access& a, const Operation& operation, std::int64_t copy) {
  auto& copies = o.lists[0];
  if (a.offset >= copies.size()) copies.resize(a.offset + std::size_t{1});
  copies[a.offset] = operation.incarnation() * kIncarnation + copy;
}
inline std::int64_t clean_copy(std::int64_t of_version) { return 2 * of_version + 2; }
inline bool is_dirty(std::int64_t copy) { return copy % 2 != 0; }

inline bool enabled(const State& state, ActorId, const Operation& operation, const Access& access) {
  const Object& o = state.object(access.object);
  const std::int64_t copy = copy_of(o, access, operation);
  if (access.verb == kWriteBack) return is_dirty(copy);
  if (access.verb == kFetch) return !is_dirty(copy) && copy != clean_copy(version(o));
  return true;
}

// Results: what was done, bits.
inline constexpr std::int64_t kReadsDevice = 1, kWritesDevice = 2, kChangesCopy = 4, kReadsCopy = 8;

inline std::int64_t apply(State& state, ActorId, const Operation& operation, const Access& access) {
  Object& o = state.object(access.object);
  std::int64_t copy = copy_of(o, access, operation), done = 0;
  const auto have_copy = [&] {
    if (copy != 0) return;
    copy = clean_copy(version(o));
    done |= kReadsDevice | kChangesCopy;
  };
  const auto write_back = [&](bool keeps) {
    if (is_dirty(copy)) {
      copy = clean_copy(++version(o));
      done |= kWritesDevice | kChangesCopy;
    }
    if (!keeps && copy != 0) copy = 0, done |= kChangesCopy;
  };
  switch (access.verb) {
    case kLoad:
      have_copy();
      done |= kReadsCopy;
      break;
    case kStore:
      have_copy();
      if (!is_dirty(copy)) ++copy;
      done |= kReadsCopy | kChangesCopy;
      break;
    case kStoreWeakly:
      write_back(false);
      ++version(o);
      done |= kWritesDevice;
      break;
    case kFlush:
      write_back(false);
      break;
    case kFetch:
      copy = 0;
      have_copy();
      break;
    default:
      write_back(true);
  }
  set_copy(o, access, operation, copy);
  return done;
}

inline bool dependent(const Access& x, const Access& y) {
  const auto meets = [](const Access& a, const Access& b) {
    if ((a.result & kWritesDevice) != 0 && (b.result & (kReadsDevice | kWritesDevice)) != 0) return true;
    return a.offset == b.offset && (a.result & kChangesCopy) != 0;
  };
  // What a flush finds clean, or not there, is not so after a store, or a fetch.
  const bool is_flush_of_same = x.offset == y.offset && (x.verb != kLoad || y.verb != kLoad);
  return meets(x, y) || meets(y, x) || is_flush_of_same;
}

// How many steps caches may still take by themselves, where that is bounded: by a semaphore.
inline std::int64_t steps_left(const State& state, const Operation& own) {
  const auto is_bound = [](const Access& a) { return primitive_of(a.object) == PrimitiveId::kSemaphore; };
  const auto bound = std::find_if(own.begin(), own.end(), is_bound);
  return bound == own.end() ? 0 : scheduler::semaphore::count(state.object(bound->object));
}

// Of a step that a cache takes by itself, which is enabled, and of one that somebody takes then. A write-back matters
// to the machine's next store, to others that read the device or write to it, and to the machine's failure. A fetch
// matters to the machine's next access of a copy that is old, and to others that write to the device. Where another
// step by itself may follow before `taken`, the first one matters wherever that one might: to each access of the line,
// and to failures and ends while somebody's copy is dirty.
inline bool matters_before(const State& state, const Operation& own, const Operation& taken, bool others_may_follow) {
  const Access& by_itself = own[0];
  const bool is_write_back = by_itself.verb == kWriteBack;
  const auto is_of_line = [&](const Access& access) { return access.object == by_itself.object; };
  if (others_may_follow) {
    if (std::any_of(taken.begin(), taken.end(), is_of_line)) return true;
    const auto& copies = state.object(by_itself.object).lists[0];
    if (scheduler::host_ended_by(taken) != scheduler::kNoHost && std::any_of(copies.begin(), copies.end(), is_dirty))
      return true;
  }
  if (scheduler::host_ended_by(taken) == own.host()) return is_write_back;
  for (const Access& access : taken) {
    if (access.object != by_itself.object) continue;
    if (access.offset != by_itself.offset)
      return (access.result & (kWritesDevice | (is_write_back ? kReadsDevice : 0))) != 0;
    if (access.verb == kStore && is_write_back) return true;
    return access.verb <= kStore && !is_write_back && copy_of(state.object(access.object), by_itself, own) != 0;
  }
  return false;
}

inline std::string operation_text(const scheduler::Narrator& narrator, const Operation& operation) {
  const Access& first = operation[0];
  static constexpr const char* kTexts[] = {"load",
                                           "store",
                                           "non-temporal store to",
                                           "flush, and drop the copy of",
                                           "write back (clwb)",
                                           "by itself writes back",
                                           "by itself fetches anew"};
  const std::string what = kTexts[first.verb];
  return what + " " + narrator.object_text(first.object);
}
inline std::string object_text(const scheduler::Narrator& narrator, ObjectId object) {
  return "line " + narrator.place_text(object, 0);
}
inline constexpr scheduler::Words kWords{.operation = operation_text, .object = object_text};

inline constexpr scheduler::Primitive kPrimitive{
    .name = "incoherent line",
    .verbs = kVerbs,
    .enabled = enabled,
    .apply = apply,
    .dependent = dependent,
    .matters_before =
        [](const State& state, const Operation& own, const Operation& taken) {
          return matters_before(state, own, taken, steps_left(state, own) > 1);
        },
    .traits = {.may_stay_away = scheduler::bit_of_verb(kWriteBack) | scheduler::bit_of_verb(kFetch),
               .happens_by_itself = scheduler::bit_of_verb(kWriteBack) | scheduler::bit_of_verb(kFetch),
               .is_memory = true},
    .words = &kWords};

// Its id, in a process in which no other primitive but those of lines and store buffers was added before it.
inline PrimitiveId primitive() {
  line::primitive();
  static const PrimitiveId id = scheduler::add_primitive(kPrimitive);
  return id;
}

}  // namespace crashcut::cxl::incoherent
