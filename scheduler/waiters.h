// Waiters: those who wait for a signal, as condition variables and futexes have them (primitives/).
//
// Of the object: b signals so far, c the policy. list holds the waiters as they came, then the numbers of signals
//   that nobody has taken yet; second holds, a waiter, the first signal that it may take, or, below 0, why it waits no
//   longer: it was woken by all (kByAll) or by the signal kBySignal - number; or it left without a signal (kByTime,
//   kForNothing) and takes none any more.
#pragma once

#include <algorithm>
#include <cstdint>

#include "scheduler/primitive.h"

namespace crashcut::scheduler::waiters {

inline constexpr std::int64_t kByAll = -1, kBySignal = -2, kByTime = INT64_MIN, kForNothing = INT64_MIN + 1;
inline bool has_left(std::int64_t second) { return second <= kForNothing; }

inline std::size_t place_of(const Object& o, ActorId actor) {
  return static_cast<std::size_t>(std::find(o.list.begin(), o.list.end(), std::int64_t{index(actor)}) - o.list.begin());
}
inline auto signals_of(Object& o) { return o.list.begin() + static_cast<std::ptrdiff_t>(o.second.size()); }
inline auto signals_of(const Object& o) { return o.list.begin() + static_cast<std::ptrdiff_t>(o.second.size()); }

inline void enqueue(Object& o, ActorId actor) {
  o.list.insert(signals_of(o), index(actor));
  o.second.push_back(o.b);
}
inline void remove(Object& o, std::size_t place) {
  o.list.erase(o.list.begin() + static_cast<std::ptrdiff_t>(place));
  o.second.erase(o.second.begin() + static_cast<std::ptrdiff_t>(place));
}

// A signal wakes one of those who waited when it came, whoever runs first.
inline bool may_wake(const Object& o, std::size_t place) {
  if (place >= o.second.size()) return false;
  if (o.second[place] < 0) return true;
  return std::any_of(signals_of(o), o.list.end(), [&](std::int64_t signal) { return signal >= o.second[place]; });
}

// Whether somebody is left to hear a signal: not all are woken already.
inline bool has_sleeper(const Object& o) {
  const auto asleep =
      static_cast<std::size_t>(std::count_if(o.second.begin(), o.second.end(), [](std::int64_t s) { return s >= 0; }));
  return asleep > o.list.size() - o.second.size();
}

// Under fifo and lifo a signal wakes one at once, of those who waited when it came.
inline void grant(Object& o, std::int64_t number) {
  const auto waits = [&](std::int64_t since) { return since >= 0 && since <= number; };
  const auto first = std::find_if(o.second.begin(), o.second.end(), waits);
  if (first == o.second.end()) return;
  *(o.c == kFifo ? first : std::find_if(o.second.rbegin(), o.second.rend(), waits).base() - 1) = kBySignal - number;
}

inline void signal(Object& o) {
  const bool is_heard = has_sleeper(o);
  const std::int64_t number = o.b++;
  if (!is_heard) return;
  o.c == kArbitrary ? o.list.push_back(number) : grant(o, number);
}

inline void signal_all(Object& o) {
  ++o.b;
  std::replace_if(
      o.second.begin(), o.second.end(), [](std::int64_t s) { return !has_left(s); }, kByAll);
  o.list.resize(o.second.size());
}

// Whether a signal woke it; it waits no more.
inline bool wake(Object& o, std::size_t place) {
  const bool is_woken = may_wake(o, place);
  if (is_woken && o.second[place] >= 0) {
    // The oldest signal that this one may take: those that came later may need the later ones.
    o.list.erase(std::find_if(signals_of(o), o.list.end(), [&](std::int64_t s) { return s >= o.second[place]; }));
  }
  remove(o, place);
  return is_woken;
}

// A waiter can leave without a signal, since its time runs out, as long as there is none that it may take.
// Nothing is lost by that: where a signal is there that another waiter may take as well, this waiter might have left
// just before the signal came, and all would stand as it does now.
inline bool may_leave(const Object& o, std::size_t place) {
  return place < o.second.size() && o.second[place] >= 0 && !may_wake(o, place);
}

// Who is cancelled takes no signal: it is for the others who waited when it came, or for nobody.
inline void leave(Object& o, std::size_t place) {
  const std::int64_t woken = o.second[place];
  remove(o, place);
  if (has_left(woken)) return;
  if (woken <= kBySignal) return grant(o, kBySignal - woken);
  std::int64_t heard = 0;
  const auto is_for_nobody = [&](std::int64_t signal) {
    const auto waited = std::count_if(o.second.begin(), o.second.end(),
                                      [&](std::int64_t since) { return since >= 0 && since <= signal; });
    return waited > heard ? (++heard, false) : true;
  };
  o.list.erase(std::remove_if(signals_of(o), o.list.end(), is_for_nobody), o.list.end());
}

}  // namespace crashcut::scheduler::waiters
