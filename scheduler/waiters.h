// Waiters: the threads that wait for a signal at a condition variable or a futex (primitives/).
//
// The queue holds the waiters in the order in which they came, then the numbers of the signals that nobody has taken
//   yet. The state of a waiter is the number of the first signal that it may take. If it is below 0, it says why the
//   thread waits no longer: a broadcast woke it (kByAll), the signal of number kBySignal - state did, or it left
//   without a signal (kByTime, kForNothing) and takes none any more.
#pragma once

#include <algorithm>
#include <cstdint>

#include "scheduler/primitive.h"

namespace crashcut::scheduler::waiters {

inline constexpr std::int64_t kByAll = -1, kBySignal = -2, kByTime = INT64_MIN, kForNothing = INT64_MIN + 1;

// --- what is kept of the object
// How many signals came so far.
inline auto& signals_sent(auto& o) { return o.numbers[1]; }
inline auto& policy(auto& o) { return o.numbers[2]; }
inline auto& queue(auto& o) { return o.lists[0]; }
inline auto& states(auto& o) { return o.lists[1]; }

inline bool has_left(std::int64_t second) { return second <= kForNothing; }

inline std::size_t place_of(const Object& o, ActorId actor) {
  return static_cast<std::size_t>(std::find(queue(o).begin(), queue(o).end(), std::int64_t{index(actor)}) -
                                  queue(o).begin());
}
inline auto signals_of(Object& o) { return queue(o).begin() + static_cast<std::ptrdiff_t>(states(o).size()); }
inline auto signals_of(const Object& o) { return queue(o).begin() + static_cast<std::ptrdiff_t>(states(o).size()); }

inline void enqueue(Object& o, ActorId actor) {
  queue(o).insert(signals_of(o), index(actor));
  states(o).push_back(signals_sent(o));
}
inline void remove(Object& o, std::size_t place) {
  queue(o).erase(queue(o).begin() + static_cast<std::ptrdiff_t>(place));
  states(o).erase(states(o).begin() + static_cast<std::ptrdiff_t>(place));
}

// A signal wakes one of the threads that waited when it came: the one that runs first.
inline bool may_wake(const Object& o, std::size_t place) {
  if (place >= states(o).size()) return false;
  if (states(o)[place] < 0) return true;
  return std::any_of(signals_of(o), queue(o).end(), [&](std::int64_t signal) { return signal >= states(o)[place]; });
}

// Whether there is a waiter that no signal has woken yet.
inline bool has_sleeper(const Object& o) {
  const auto asleep = static_cast<std::size_t>(
      std::count_if(states(o).begin(), states(o).end(), [](std::int64_t s) { return s >= 0; }));
  return asleep > queue(o).size() - states(o).size();
}

// Under fifo and lifo a signal wakes one of the threads that waited when it came at once.
inline void grant(Object& o, std::int64_t number) {
  const auto waits = [&](std::int64_t since) { return since >= 0 && since <= number; };
  const auto first = std::find_if(states(o).begin(), states(o).end(), waits);
  if (first == states(o).end()) return;
  *(policy(o) == kFifo ? first : std::find_if(states(o).rbegin(), states(o).rend(), waits).base() - 1) =
      kBySignal - number;
}

inline void signal(Object& o) {
  const bool is_heard = has_sleeper(o);
  const std::int64_t number = signals_sent(o)++;
  if (!is_heard) return;
  policy(o) == kArbitrary ? queue(o).push_back(number) : grant(o, number);
}

inline void signal_all(Object& o) {
  ++signals_sent(o);
  std::replace_if(
      states(o).begin(), states(o).end(), [](std::int64_t s) { return !has_left(s); }, kByAll);
  queue(o).resize(states(o).size());
}

// Removes the waiter. Returns whether a signal woke it.
inline bool wake(Object& o, std::size_t place) {
  const bool is_woken = may_wake(o, place);
  if (is_woken && states(o)[place] >= 0) {
    // The oldest signal that this one may take: those that came later may need the later ones.
    queue(o).erase(std::find_if(signals_of(o), queue(o).end(), [&](std::int64_t s) { return s >= states(o)[place]; }));
  }
  remove(o, place);
  return is_woken;
}

// A waiter whose time runs out can leave as long as there is no signal that it may take. That loses nothing: if another
// waiter may take the signal too, this one might as well have left just before the signal came, with the same state
// now.
inline bool may_leave(const Object& o, std::size_t place) {
  return place < states(o).size() && states(o)[place] >= 0 && !may_wake(o, place);
}

// A cancelled waiter takes no signal. Its signal goes to another thread that waited when the signal came, or is lost.
inline void leave(Object& o, std::size_t place) {
  const std::int64_t woken = states(o)[place];
  remove(o, place);
  if (has_left(woken)) return;
  if (woken <= kBySignal) return grant(o, kBySignal - woken);
  std::int64_t heard = 0;
  const auto is_for_nobody = [&](std::int64_t signal) {
    const auto waited = std::count_if(states(o).begin(), states(o).end(),
                                      [&](std::int64_t since) { return since >= 0 && since <= signal; });
    return waited > heard ? (++heard, false) : true;
  };
  queue(o).erase(std::remove_if(signals_of(o), queue(o).end(), is_for_nobody), queue(o).end());
}

}  // namespace crashcut::scheduler::waiters
