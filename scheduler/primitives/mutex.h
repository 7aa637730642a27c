// A mutex, POSIX's kinds. Under the policies fifo and lifo a thread that waits first takes the step "enqueue"; a thread
// that only tries takes what is free.
// A mutex whose owner is gone with its host (host.h) can be taken. The next owner is told: EOWNERDEAD.
#pragma once

#include <algorithm>
#include <cerrno>

#include "scheduler/primitive.h"
#include "scheduler/primitives/timer.h"

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
inline auto& line(auto& o) { return o.lists[0]; }      // who waits in line

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

inline bool enabled(const State& state, ActorId actor, const Operation& operation, const Access& access) {
  const Object& m = state.object(access.object);
  if (access.verb != kLock && access.verb != kTimedLock) return true;
  return answers_at_once(state, m, actor) || (access.verb == kTimedLock && timer::is_fired(state, operation));
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

// Before an access that sees who owns it: takes it from an owner that is gone.
inline void free_if_gone(State& state, Object& m) {
  if (is_free(m) || !state.look_if_gone(owner_of(m))) return;
  owner(m) = depth(m) = 0;
  health(m) = kOwnerDied;
}

inline std::int64_t apply(State& state, ActorId actor, const Operation&, const Access& access) {
  Object& m = state.object(access.object);
  if (access.verb <= kTimedLock || access.verb == kDestroy) free_if_gone(state, m);
  if (access.verb == kLock || access.verb == kTimedLock)
    any_before(m, actor, [&](ActorId waiter) { return !state.look_if_gone(waiter); });
  const bool has_to_wait = access.verb == kTimedLock && !answers_at_once(state, m, actor);
  if (access.verb == kLock || access.verb == kTimedLock) std::erase(line(m), std::int64_t{index(actor)});
  switch (access.verb) {
    case kEnqueue:
      line(m).push_back(index(actor));
      return 0;
    case kTryLock:
      return lock(m, actor, EBUSY);
    case kLock:
    case kTimedLock:
      return has_to_wait ? ETIMEDOUT : lock(m, actor, 0);
    case kUnlock:
      return unlock(m, actor);
    case kDestroy:
      if (!is_free(m)) return kDestroyWhileLocked;
      return std::all_of(line(m).begin(), line(m).end(),
                         [&](std::int64_t waiter) { return state.look_if_gone(static_cast<ActorId>(waiter)); })
                 ? 0
                 : kDestroyWhileWaitedFor;
    case kAbandon:
      owner(m) = depth(m) = 0;
      health(m) = kOwnerDied;
      return 0;
    case kConsistent:
      return health(m) == kOwnerDied && owner(m) == number_of(actor) ? (health(m) = kSound, 0) : EINVAL;
    default:
      return 0;
  }
}

inline bool dependent(const Access& x, const Access& y) {
  // Two that found it taken and left read the owner only. All others but arrivals change it.
  if (x.verb != kEnqueue && y.verb != kEnqueue) return !(x.result == EBUSY && y.result == EBUSY);
  // Who comes changes the line alone. Only those who wait in it look there, and in a fifo line not behind themselves.
  const auto sees_line = [](const Access& a) { return a.verb == kLock || a.verb == kTimedLock; };
  const auto sees_all = [](const Access& a) { return a.verb == kEnqueue || a.verb == kDestroy; };
  return (sees_all(x) && sees_all(y)) || ((sees_line(x) || sees_line(y)) && std::max(x.argument, y.argument) != kFifo);
}

// One that waits is enabled while the mutex is free; unlocking, but by mistake, while it is not.
inline bool co_enabled(const Access& x, const Access& y) {
  const auto waits = [](const Access& a) { return a.verb == kLock; };
  const auto frees = [](const Access& a) {
    return (a.verb == kUnlock && a.result > kMisuse && a.result != EPERM) || a.verb == kAbandon;
  };
  return !(waits(x) && frees(y)) && !(waits(y) && frees(x));
}

inline void edges(const Access& access, const EdgeVisitor& visit) {
  if (access.verb <= kTimedLock && (access.result == 0 || access.result == EOWNERDEAD)) return visit(Edge::kAcquire, 0);
  if ((access.verb == kUnlock && access.result == 0) || access.verb == kAbandon) visit(Edge::kRelease, 0);
}

inline constexpr Primitive kPrimitive{"mutex",    kVerbs,  enabled, apply,   dependent, always,
                                      co_enabled, nullptr, edges,   nullptr, {kDestroy}};

}  // namespace crashcut::scheduler::mutex
