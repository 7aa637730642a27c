// Primitive: a kind of synchronisation object. To add one: a file in primitives/ and a line in primitives/table.inc;
// or, from outside of this folder, add_primitive(). Nothing else has to know it.
//
// Every function sees accesses to one object of its kind. What it may look at: the object, and the other objects of
//   the same operation. Defaults are safe: without a reason, two accesses to one object do not commute.
//   enabled      whether the access can be executed now
//   apply        executes it and returns the result; negative below kMisuse: the program used the object wrongly
//   dependent    whether two executed accesses of two actors, next to each other in an execution, must keep their
//                order. Not asked: whether one disables the other, which State knows.
//   conflicting  whether there is a state in which they do not commute, disabling included. A superset of dependent
//   co_enabled   false only where no state enables both: then there is nothing to reverse
//   holds        whether the actor keeps others from the access until it takes a further step. Needed only if several
//                actors can hold the object at once: then leaving out the step of one of them does not enable the
//                access
//   edges        how what one thread did comes to another by an executed access (edges.h)
//   is_there     false if the actor that stands before the access does not exist yet
//   destroys     the verb after which the object must not be used any more, and the verbs (a bit each) with which a
//                thread that was already waiting leaves the object: those stay allowed
//   matters_before  of an operation by a verb that happens by itself, which is enabled in this state: whether it may
//                make a difference just before the other one, which is executed then. Only for ReductionName::kOne
//   traits       what else sets a verb apart
//   words        how its steps are told (words.h)
#pragma once

#include <array>
#include <span>

#include "scheduler/state.h"

namespace crashcut::scheduler {

// Safe defaults.
inline bool always_enabled(const State&, ActorId, const Operation&, const Access&) { return true; }
inline bool always(const Access&, const Access&) { return true; }

// A thread that acquires at a channel of an object knows of everything that other threads did before they released
// there. A channel is a part of an object.
enum class Edge { kAcquire, kRelease };

// A reference to any function of an edge and a channel. A primitive calls it with its edges.
class EdgeVisitor {
 public:
  template <class Visit>
  explicit EdgeVisitor(Visit& visit)
      : visit_(&visit),
        call_([](void* to, Edge edge, std::uint32_t channel) { (*static_cast<Visit*>(to))(edge, channel); }) {}
  void operator()(Edge edge, std::uint32_t channel) const { call_(visit_, edge, channel); }

 private:
  void* visit_;
  void (*call_)(void*, Edge, std::uint32_t);
};

struct Words;

struct Primitive {
  const char* name = nullptr;
  std::span<const char* const> verbs{};
  bool (*enabled)(const State&, ActorId, const Operation&, const Access&) = always_enabled;
  std::int64_t (*apply)(State&, ActorId, const Operation&, const Access&) = nullptr;
  bool (*dependent)(const Access&, const Access&) = always;
  bool (*conflicting)(const Access&, const Access&) = always;
  bool (*co_enabled)(const Access&, const Access&) = always;
  bool (*holds)(const State&, ActorId, const Access&) = nullptr;
  void (*edges)(const Access&, const EdgeVisitor&) = nullptr;
  bool (*is_there)(const State&, const Access&) = nullptr;
  bool (*matters_before)(const State&, const Operation& own, const Operation& taken) = nullptr;
  struct Destruction {
    std::uint8_t verb = kNoVerb;
    std::uint32_t leaving = 0;
  } destroys{};
  // Of the operations whose first access is of this primitive. Sets of verbs, a bit each, unless said otherwise.
  struct Traits {
    std::uint32_t waits_for_time = 0;     // dependence.h
    std::uint32_t meets_all = 0;          // it commutes with no step, whatever that touches
    std::uint32_t may_stay_away = 0;      // an actor that is left before it at the end is no deadlock
    std::uint32_t ends_host = 0;          // the first object is a host: none of its actors takes a step after it
    std::uint32_t is_failure = 0;         // nothing waits for it: it need not happen, and is tried after all else
    std::uint32_t happens_by_itself = 0;  // nothing waits for it, as for a failure
    bool has_footprint = false;           // any verb: what it touched is known only when it is done (footprint.h)
    bool is_assumption = false;           // any verb: the program rules this execution out (assume.h)
    bool is_memory = false;               // any verb: an access of memory, by which a loop may wait
  } traits{};
  const Words* words = nullptr;
  static constexpr std::uint8_t kNoVerb = 0xff;
};
inline constexpr std::uint32_t bit_of_verb(std::uint8_t verb) { return std::uint32_t{1} << verb; }

inline constexpr std::size_t kPrimitivesMost = 64;
extern std::array<const Primitive*, kPrimitivesMost> primitives;  // primitives/table.cc
inline const Primitive& primitive_of(const Access& access) {
  return *primitives[static_cast<std::size_t>(primitive_of(access.object))];
}
// For a model that has its own primitives: before the first search. `primitive` must outlive all searches.
PrimitiveId add_primitive(const Primitive& primitive);

// Results of a program's mistakes.
inline constexpr std::int64_t kMisuse = -1000;
inline constexpr std::int64_t kUnlockByNonOwner = kMisuse - 1;
inline constexpr std::int64_t kUnlockOfUnlocked = kMisuse - 2;
inline constexpr std::int64_t kDestroyWhileLocked = kMisuse - 3;
inline constexpr std::int64_t kDestroyWhileWaitedFor = kMisuse - 4;
inline constexpr std::int64_t kJoinTwice = kMisuse - 5;
inline constexpr std::int64_t kJoinOfDetached = kMisuse - 6;
inline constexpr std::int64_t kDetachTwice = kMisuse - 7;
inline constexpr std::int64_t kWaitWithoutMutex = kMisuse - 8;
inline constexpr std::int64_t kFreeTwice = kMisuse - 9;
inline constexpr std::int64_t kFreeOfOther = kMisuse - 10;
inline constexpr std::int64_t kUseAfterFree = kMisuse - 11;
inline constexpr std::int64_t kUseAfterDestroy = kMisuse - 12;
// A clause: "unlocks a mutex that another thread holds". Empty for other results.
const char* misuse_text(std::int64_t result);

// The wake-up policy of an object that threads wait for.
enum Policy : std::int64_t { kArbitrary, kFifo, kLifo };

}  // namespace crashcut::scheduler
