// A mutex, POSIX's kinds. Under the policies fifo and lifo a thread that waits first takes the step "enqueue"; a thread
// that only tries takes what is free.
// A mutex whose owner is gone with its host (host.h) can be taken. The next owner is told: EOWNERDEAD.
#pragma once

#include <algorithm>
#include <cerrno>

#include "scheduler/mutexes.h"
#include "scheduler/primitive.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::mutex {

inline bool enabled(const State& state, ActorId actor, const Operation& operation, const Access& access) {
  const Object& m = state.object(access.object);
  if (access.verb != kLock && access.verb != kTimedLock) return true;
  return answers_at_once(state, m, actor) || (access.verb == kTimedLock && timer::is_fired(state, operation));
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
  // A thread that comes changes the line alone. Only threads that wait in it look there, and in a fifo line not behind
  // themselves.
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

inline std::string operation_text(const Narrator& narrator, const Operation& operation) {
  return plain_text(narrator, operation[0]) + error_text(operation.result());
}
inline std::string waiting_text(const Narrator& narrator, const State& state, ActorId actor, const Access& access) {
  const Object& m = state.object(access.object);
  if (is_free(m)) return "";
  return "waits for " + narrator.object_text(access.object) +
         (owner(m) == number_of(actor) ? ", which it holds itself"
                                       : ", which " + narrator.holder_text(owner_of(m)) + " holds");
}
inline bool is_held_by(const Object& m, ActorId actor) { return owner(m) == number_of(actor); }
inline constexpr Words kWords{.operation = operation_text, .waiting = waiting_text, .is_held_by = is_held_by};

inline constexpr Primitive kPrimitive{.name = "mutex",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = dependent,
                                      .co_enabled = co_enabled,
                                      .edges = edges,
                                      .destroys = {.verb = kDestroy},
                                      .words = &kWords};

}  // namespace crashcut::scheduler::mutex
