// A counting semaphore.
// Under the policies fifo and lifo a wait is two steps: "enqueue", then "take turn".
#pragma once

#include <algorithm>
#include <cerrno>

#include "scheduler/primitive.h"
#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::semaphore {

enum Verb : std::uint8_t { kWait, kTryWait, kTimedWait, kPost, kGetValue, kDestroy, kEnqueue, kTakeTurn };
inline constexpr const char* kVerbs[] = {"wait",     "trywait", "timedwait", "post",
                                         "getvalue", "destroy", "enqueue",   "take turn"};

// What is kept of it.
inline auto& count(auto& o) { return o.numbers[0]; }
inline auto& policy(auto& o) { return o.numbers[2]; }
inline auto& line(auto& o) { return o.lists[0]; }  // the threads that wait for their turn, by arrival

inline Access access(ObjectId semaphore, Verb verb, std::int64_t argument = 0) { return {semaphore, verb, argument}; }

inline bool is_turn_of(const Object& s, ActorId actor) {
  return !line(s).empty() && (policy(s) == kFifo ? line(s).front() : line(s).back()) == index(actor);
}

inline bool enabled(const State& state, ActorId actor, const Operation& operation, const Access& access) {
  const Object& s = state.object(access.object);
  if (cancellation::is_heeded(state, operation)) return true;
  switch (access.verb) {
    case kWait:
      return count(s) > 0;
    case kTimedWait:
      return count(s) > 0 || timer::is_fired(state, operation);
    case kTakeTurn:
      return count(s) > 0 && is_turn_of(s, actor);
    default:
      return true;
  }
}

inline std::int64_t apply(State& state, ActorId actor, const Operation& operation, const Access& access) {
  Object& s = state.object(access.object);
  if (cancellation::is_heeded(state, operation)) return std::erase(line(s), std::int64_t{index(actor)}), ECANCELED;
  switch (access.verb) {
    case kPost:
      count(s) += access.argument == 0 ? 1 : access.argument;
      return 0;
    case kGetValue:
      return count(s);
    case kDestroy:
      return line(s).empty() ? 0 : kDestroyWhileWaitedFor;
    case kEnqueue:
      line(s).push_back(index(actor));
      return 0;
    case kTakeTurn:
      std::erase(line(s), std::int64_t{index(actor)});
      break;
    default:
      if (count(s) == 0) return access.verb == kTryWait ? EAGAIN : ETIMEDOUT;
  }
  --count(s);
  return 0;
}

inline bool is_wait(const Access& x) { return x.verb == kWait || x.verb == kTimedWait || x.verb == kTryWait; }
inline bool took(const Access& x) { return x.result == 0; }
inline bool takes(const Access& x) { return (is_wait(x) || x.verb == kTakeTurn) && took(x); }
inline bool only_reads(const Access& x) { return x.verb == kGetValue || (is_wait(x) && x.result > 0); }

inline bool dependent(const Access& x, const Access& y) {
  // Two posts add up in either order.
  if (x.verb == kPost && y.verb == kPost) return false;
  // Two waits that both took, one right after the other: the count was two or more, and both take in either order.
  if (is_wait(x) && is_wait(y) && took(x) && took(y)) return false;
  // Neither changes anything.
  if (only_reads(x) && only_reads(y)) return false;
  // Only a thread that takes its turn looks at the line; a post looks at the count.
  if ((x.verb == kEnqueue && (y.verb == kPost || y.verb == kGetValue)) ||
      (y.verb == kEnqueue && (x.verb == kPost || x.verb == kGetValue)))
    return false;
  return true;
}

// As above, but for the last unit two waits compete.
inline bool conflicting(const Access& x, const Access& y) {
  return (is_wait(x) && is_wait(y) && (took(x) || took(y))) || dependent(x, y);
}

inline void edges(const Access& access, const EdgeVisitor& visit) {
  if (access.verb == kPost) return visit(Edge::kRelease, 0);
  if (takes(access)) visit(Edge::kAcquire, 0);
}

inline std::string operation_text(const Narrator& narrator, const Operation& operation) {
  return plain_text(narrator, operation[0]) + (operation[0].verb == kGetValue ? "" : error_text(operation.result()));
}
inline std::string waiting_text(const Narrator& narrator, const State& state, ActorId, const Access& access) {
  return "waits for " + narrator.object_text(access.object) + ", whose count is " +
         std::to_string(count(state.object(access.object)));
}
inline constexpr Words kWords{.operation = operation_text, .waiting = waiting_text};

inline constexpr Primitive kPrimitive{.name = "semaphore",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = dependent,
                                      .conflicting = conflicting,
                                      .edges = edges,
                                      .destroys = {.verb = kDestroy},
                                      .words = &kWords};

}  // namespace crashcut::scheduler::semaphore
