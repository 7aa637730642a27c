// Passing time: an actor that waits only for time goes on when no other actor can.
//
// A timed wait may run out at any moment, as often as --timeouts says (timer.h). Beyond that, and for a sleep in a loop
//   that waits for others, time passes only if no actor can go on. Any of the waits may then end first: each choice is
//   another execution and, since no step moves past one by which time passes (dependence.h), a class of its own.
// An actor that rests because its loop came round to where it was (rounds.h) goes on in the same way, but not twice
//   before anything has changed.
// A Program calls let_time_pass() before it asks the Director for the next actor.
// Not modelled: time that passes while a host could fail (primitives/host.h). A failure counts as an actor that can go
//   on.
#pragma once

#include <algorithm>
#include <vector>

#include "scheduler/dependence.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/primitives/timer.h"

namespace crashcut::scheduler {

// The part of an actor that matters to time. Timers, spurious wake-ups (stir.h) and cancellations (cancellation.h) are
// actors of their own, which stand before the same operation all the time.
struct TimedActor {
  ActorId id{};
  bool is_timer = false;     // or another actor that runs no code
  bool is_sleeping = false;  // what it stands before is a sleep
  bool is_resting = false;   // or a rest
  bool has_pending = false;
  Operation pending;  // what it stands before
  std::uint32_t sleeps_alone = 0;
  std::vector<std::uint64_t> rested_at;  // fingerprints of the whole state whenever a rest of this actor ended

  bool has_rested_at(std::uint64_t fingerprint) const {
    return std::find(rested_at.begin(), rested_at.end(), fingerprint) != rested_at.end();
  }
  bool is_in_sleep() const {
    return has_pending && (is_sleeping || is_resting) && primitive_of(pending[0].object) == PrimitiveId::kSpin;
  }
};

// What a timer that stands before `fire` does instead if no actor can go on.
inline Operation run_out(Operation fire) {
  if (primitive_of(fire[0].object) == PrimitiveId::kTimer) fire.begin()->verb = timer::kRunOut;
  return fire;
}

// How often an actor may wake up from sleeps in a loop while no other actor can go on: more than ten seconds of sleeps
// of a millisecond.
inline constexpr std::uint32_t kSleepsAloneMost = 20'000;

// If no actor can go on, any timed wait may run out and any sleep in a loop may end (but see kSleepsAloneMost).
// `actors` are pointers, some of them null. fingerprint() returns the fingerprint of the whole state (rounds.h).
template <class Actors, class Fingerprint>
void let_time_pass(const State& state, const Actors& actors, const Fingerprint& fingerprint) {
  for (TimedActor* actor : actors) {
    if (actor == nullptr || !waits_for_time(actor->pending)) continue;
    if (actor->is_timer) actor->pending.begin()->verb = timer::kFire;
    if (actor->is_in_sleep()) actor->pending.begin()->verb = actor->is_resting ? spin::kRest : spin::kSpin;
  }
  const auto can_go = [&](const TimedActor* actor) {
    return actor != nullptr && actor->has_pending && !need_not_happen(actor->pending) &&
           state.is_enabled(actor->id, actor->pending);
  };
  if (state.is_over() || std::any_of(actors.begin(), actors.end(), can_go)) return;
  for (TimedActor* actor : actors) {
    if (actor == nullptr) continue;
    if (actor->is_timer) {
      const Operation late = run_out(actor->pending);
      if (state.is_enabled(actor->id, late)) actor->pending = late;
    } else if (actor->is_in_sleep() && actor->sleeps_alone < kSleepsAloneMost &&
               !(actor->is_resting && actor->has_rested_at(fingerprint()))) {
      actor->pending.begin()->verb = actor->is_resting ? spin::kGoRound : spin::kWakeUp;
    }
  }
}

}  // namespace crashcut::scheduler
