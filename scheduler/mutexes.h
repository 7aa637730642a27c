// What is kept of a mutex, and which thread can take it. What a step does is in primitives/mutex.h.
#pragma once

#include <algorithm>
#include <cerrno>

#include "scheduler/primitive.h"

namespace crashcut::scheduler::mutex {

enum Verb : std::uint8_t { kLock, kTryLock, kTimedLock, kUnlock, kDestroy, kAbandon, kConsistent, kEnqueue };
inline constexpr const char* kVerbs[] = {"lock",    "trylock", "timedlock",  "unlock",
                                         "destroy", "abandon", "consistent", "enqueue"};
// kRobust and so many times kPolicy are added.
enum Kind : std::int64_t { kNormal, kRecursive, kErrorCheck, kRobust = 4, kPolicy = 8 };
enum Health : std::int64_t { kSound, kOwnerDied, kLost };

// What is kept of it.
inline auto& kind(auto& o) { return o.numbers[0]; }
inline auto& owner(auto& o) { return o.numbers[1]; }   // its number_of(), or 0
inline auto& depth(auto& o) { return o.numbers[2]; }   // how often the owner has locked it
inline auto& health(auto& o) { return o.numbers[3]; }  // what became of a robust one
inline auto& line(auto& o) { return o.lists[0]; }      // the threads that wait in line

inline Access access(ObjectId mutex, Verb verb) { return {mutex, verb}; }
inline Access enqueue(ObjectId mutex, Policy policy) { return {mutex, kEnqueue, policy}; }

inline std::int64_t number_of(ActorId actor) { return std::int64_t{index(actor)} + 1; }
inline bool is_free(const Object& m) { return owner(m) == 0; }
inline ActorId owner_of(const Object& m) { return static_cast<ActorId>(owner(m) - 1); }
// Nobody holds it, or an actor that is gone with its host.
inline bool can_be_taken(const State& state, const Object& m) { return is_free(m) || state.is_gone(owner_of(m)); }
inline bool answers_owner(const Object& m, ActorId actor) {
  return owner(m) == number_of(actor) && (kind(m) & 3) != kNormal;
}
// Calls visit() with those in line whose turn comes before the actor's, until it returns true; whether it did.
template <class Visit>
bool any_before(const Object& m, ActorId actor, Visit&& visit) {
  const std::vector<std::int64_t>& all = line(m);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t waiter = kind(m) / kPolicy == kFifo ? all[i] : all[all.size() - 1 - i];
    if (waiter == index(actor)) return false;
    if (visit(static_cast<ActorId>(waiter))) return true;
  }
  return false;
}
inline bool is_turn_of(const State& state, const Object& m, ActorId actor) {
  return !any_before(m, actor, [&](ActorId waiter) { return !state.is_gone(waiter); });
}
inline bool answers_at_once(const State& state, const Object& m, ActorId actor) {
  return answers_owner(m, actor) || (can_be_taken(state, m) && is_turn_of(state, m, actor));
}

inline std::int64_t take(Object& m, ActorId actor) {
  if (health(m) == kLost) return ENOTRECOVERABLE;
  owner(m) = number_of(actor);
  depth(m) = 1;
  return health(m) == kOwnerDied ? EOWNERDEAD : 0;
}

inline std::int64_t lock(Object& m, ActorId actor, std::int64_t if_held) {
  if (is_free(m)) return take(m, actor);
  if (owner(m) != number_of(actor)) return if_held;
  if ((kind(m) & 3) == kRecursive) return ++depth(m), 0;
  return if_held == 0 ? EDEADLK : if_held;
}

inline std::int64_t unlock(Object& m, ActorId actor) {
  if (owner(m) != number_of(actor)) {
    if ((kind(m) & 3) != kNormal || (kind(m) & kRobust) != 0) return EPERM;
    return is_free(m) ? kUnlockOfUnlocked : kUnlockByNonOwner;
  }
  if (--depth(m) > 0) return 0;
  // A robust one was unlocked without being made consistent.
  if (health(m) == kOwnerDied) health(m) = (kind(m) & kRobust) != 0 ? kLost : kSound;
  owner(m) = 0;
  return 0;
}

// Before an access that sees the owner: takes it from an owner that is gone.
inline void free_if_gone(State& state, Object& m) {
  if (is_free(m) || !state.look_if_gone(owner_of(m))) return;
  owner(m) = depth(m) = 0;
  health(m) = kOwnerDied;
}

}  // namespace crashcut::scheduler::mutex
