// Passing time: what waits for time alone goes on where nobody else can.
//
// A timed wait may run out at any moment, so often as --timeouts says (timer.h); beyond that, and for a sleep in a
//   loop that waits for others, time passes only where nobody can go on. Whose wait then ends first is open: each is
//   another execution, and as no step moves past one that all others had to wait for (dependence.h), each is a class
//   of its own.
// Who rests, since it came round to where it was (rounds.h), goes on so too; and not again before anything has changed.
// Whoever runs a program calls let_time_pass() before it asks who goes next.
#pragma once

#include <algorithm>
#include <vector>

#include "scheduler/dependence.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/primitives/timer.h"

namespace crashcut::scheduler {

// What of an actor time looks at. Timers, what wakes threads for nothing (stir.h), and what cancels them
// (cancellation.h), are actors of their own, which stand before the same operation all the time.
struct TimedActor {
  ActorId id{};
  bool is_timer = false;     // or another without code
  bool is_sleeping = false;  // what it stands before is a sleep
  bool is_resting = false;   // or a rest
  bool has_pending = false;
  Operation pending;  // what it stands before
  std::uint32_t sleeps_alone = 0;
  std::vector<std::uint64_t> rested_at;  // how all stood whenever a rest of its ended

  bool has_rested_at(std::uint64_t fingerprint) const {
    return std::find(rested_at.begin(), rested_at.end(), fingerprint) != rested_at.end();
  }
  bool is_in_sleep() const {
    return has_pending && (is_sleeping || is_resting) && primitive_of(pending[0].object) == PrimitiveId::kSpin;
  }
};

// What a timer that stands before `fire` does instead where nobody can go on.
inline Operation run_out(Operation fire) {
  if (primitive_of(fire[0].object) == PrimitiveId::kTimer) fire.begin()->verb = timer::kRunOut;
  return fire;
}

// So often an actor wakes up from sleeps in a loop where nobody else can go on: ten seconds by the millisecond, and
// more.
inline constexpr std::uint32_t kSleepsAloneMost = 20'000;

// Where nobody can go on any wait may run out, though so many have, and any sleep in a loop may end, if not for ever.
// `actors` are pointers, null where there is none; fingerprint() tells how all stand (rounds.h).
template <class Actors, class Fingerprint>
void let_time_pass(const State& state, const Actors& actors, const Fingerprint& fingerprint) {
  for (TimedActor* actor : actors) {
    if (actor == nullptr || !waits_for_time(actor->pending)) continue;
    if (actor->is_timer) actor->pending.begin()->verb = timer::kFire;
    if (actor->is_in_sleep()) actor->pending.begin()->verb = actor->is_resting ? spin::kRest : spin::kSpin;
  }
  const auto can_go = [&](const TimedActor* actor) {
    return actor != nullptr && actor->has_pending && state.is_enabled(actor->id, actor->pending);
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
