#include "scheduler/execution.h"

#include <algorithm>
#include <iterator>

#include "scheduler/dependence.h"
#include "scheduler/hash.h"
#include "scheduler/primitive.h"
#include "scheduler/primitives/answer.h"

namespace crashcut::scheduler {

bool is_live(const State& state, const Operation& operation) {
  const Primitive& primitive = primitive_of(operation[0]);
  return primitive.is_there == nullptr || primitive.is_there(state, operation[0]);
}

// A timer that never runs out is nothing that was left undone; nor is a spurious wake-up that never came, a
// cancellation, or a signal that nobody sends. Nor is what an actor of a failed host would have done.
bool is_left_undone(const State& state, const Operation& pending) {
  const Access& first = pending[0];
  return !state.is_gone(pending) && (primitive_of(first).traits.may_stay_away & bit_of_verb(first.verb)) == 0;
}

bool Director::is_asleep(ActorId actor) const {
  return std::any_of(sleep_.begin(), sleep_.end(), [&](const Step& s) { return s.actor == actor; });
}

bool is_assumed_away(std::span<const Pending> pending) {
  return std::any_of(pending.begin(), pending.end(),
                     [](const Pending& p) { return primitive_of(p.operation[0]).traits.is_assumption; });
}

bool is_exhausted(const Execution& execution, ActorId actor, std::uint32_t depth_most) {
  if (depth_most == 0) return false;
  return std::count_if(execution.steps.begin(), execution.steps.end(),
                       [&](const Step& s) { return s.actor == actor; }) >= depth_most;
}

bool Director::is_exhausted(ActorId actor) {
  const bool is = (request_->depth_most != 0 && own(actor).steps >= request_->depth_most) ||
                  (request_->ends_with_prefix && !is_following_prefix());
  hit_depth_ = hit_depth_ || is;
  return is;
}

std::optional<ActorId> Director::follow(const State& state, const std::vector<Pending>& pending) {
  const ActorId next = request_->prefix[taken_];
  for (const Pending& p : pending) {
    if (p.actor == next && state.is_enabled(next, p.operation)) return next;
  }
  ending_ = Ending::kDiverged;
  return std::nullopt;
}

std::optional<ActorId> Director::choose(const State& state, const std::vector<Pending>& pending) {
  const auto chosen = is_following_prefix() ? follow(state, pending) : choose_freely(state, pending);
  if (!chosen) return chosen;
  const auto taken = std::find_if(pending.begin(), pending.end(), [&](const Pending& p) { return p.actor == *chosen; });
  if (!waits_for_time(taken->operation)) return chosen;
  for (const Pending& p : pending) {
    if (p.actor != *chosen && waits_for_time(p.operation) && !is_exhausted(p.actor))
      passed_over_.push_back({taken_, p});
  }
  return chosen;
}

std::optional<ActorId> Director::choose_by_chance(const State& state, const std::vector<Pending>& pending) {
  std::optional<ActorId> chosen;
  std::uint64_t count = 0;
  for (const Pending& p : pending) {
    if (!state.is_enabled(p.actor, p.operation) || is_exhausted(p.actor) || is_asleep(p.actor)) continue;
    chance_ = mix(chance_, ++count);
    if (chance_ % count == 0) chosen = p.actor;
  }
  return chosen;
}

// Each actor has a rank, which changes with its own steps only. What need not happen has none.
std::optional<ActorId> Director::choose_by_seed(const State& state, const std::vector<Pending>& pending) {
  std::optional<ActorId> chosen;
  std::uint64_t highest = 0;
  for (const Pending& p : pending) {
    if (need_not_happen(p.operation) || !state.is_enabled(p.actor, p.operation) || is_exhausted(p.actor)) continue;
    if (answer::is_given(p.operation)) return p.actor;
    if (request_->seed == 0) continue;
    // Mixed once more: the last number reaches the upper bits, which decide, only then.
    const std::uint64_t rank = mix(mix(mix(request_->seed, index(p.actor)), own(p.actor).steps), 0);
    if (chosen && rank <= highest) continue;
    chosen = p.actor;
    highest = rank;
  }
  return chosen;
}

// Without those that wait for something that is not seen, if another one can go on. Two of them would else let each
// other go on for good. Empty: all of them are to choose from.
static std::vector<Pending> without_waiting(const State& state, const std::vector<Pending>& pending) {
  std::vector<Pending> others;
  if (std::none_of(pending.begin(), pending.end(), [](const Pending& p) { return p.operation.is_opaque(); }))
    return others;
  std::copy_if(pending.begin(), pending.end(), std::back_inserter(others),
               [](const Pending& p) { return !p.operation.is_opaque(); });
  const bool can_go_on = std::any_of(others.begin(), others.end(), [&](const Pending& p) {
    return !is_failure(p.operation) && state.is_enabled(p.actor, p.operation);
  });
  if (!can_go_on) others.clear();
  return others;
}

Director::Own& Director::own(ActorId actor) {
  if (index(actor) >= owns_.size()) owns_.resize(index(actor) + 1);
  Own& own = owns_[index(actor)];
  if (!own.is_met) own = {0, taken_, true};
  return own;
}

// The last one, while it can go on: no switch without need, counterexamples stay readable. Else the lowest. But where
// an actor has had its turn, or another has waited for the turns of all, the one that has waited longest: a loop
// without an end keeps nobody from going on.
std::optional<ActorId> Director::choose_freely(const State& state, const std::vector<Pending>& pending) {
  if (request_->is_one_schedule) {
    if (const auto others = without_waiting(state, pending); !others.empty()) return choose_freely(state, others);
    if (const auto chosen = choose_by_seed(state, pending)) return chosen;
  } else if (request_->seed != 0) {
    if (const auto chosen = choose_by_chance(state, pending)) return chosen;
  }
  const std::size_t turn = request_->turn_most;
  std::optional<ActorId> best, first_in_line, last_resort;
  std::size_t waits_since = 0, count = 0;
  bool any_asleep = false, any_exhausted = false, is_last_there = false;
  for (const Pending& p : pending) {
    if (!state.is_enabled(p.actor, p.operation)) continue;
    if (is_exhausted(p.actor)) {
      any_exhausted = any_exhausted || !need_not_happen(p.operation);
    } else if (is_asleep(p.actor)) {
      any_asleep = true;
    } else if (need_not_happen(p.operation)) {
      if (!last_resort || p.actor < *last_resort) last_resort = p.actor;
    } else if (p.actor == last_ && (turn == 0 || taken_ < turn)) {
      return last_;
    } else {
      ++count;
      is_last_there = is_last_there || p.actor == last_;
      if (p.actor != last_ && (!first_in_line || own(p.actor).waits_since < waits_since)) {
        first_in_line = p.actor;
        waits_since = own(p.actor).waits_since;
      }
      if (!best || p.actor < *best) best = p.actor;
    }
  }
  if (turn != 0 && first_in_line && ((is_last_there && in_a_row_ >= turn) || taken_ - waits_since >= turn * count))
    return first_in_line;
  if (is_last_there) return last_;
  if (best || last_resort) return best ? best : last_resort;
  const bool is_any_undone =
      std::any_of(pending.begin(), pending.end(), [&](const Pending& p) { return is_left_undone(state, p.operation); });
  ending_ = state.is_over() ? Ending::kProcessEnded
            : any_asleep    ? Ending::kAsleep
            : any_exhausted ? Ending::kDepth
            : is_any_undone ? Ending::kStuck
                            : Ending::kCompleted;
  return std::nullopt;
}

void Director::note(const Step& step, const State& after) {
  if (taken_ >= request_->sleep_from) wake_sleepers(sleep_, step, after);
  in_a_row_ = step.actor == last_ ? in_a_row_ + 1 : 1;
  last_ = step.actor;
  ++taken_;
  Own& actor = own(step.actor);
  ++actor.steps;
  actor.waits_since = taken_;
}

void wake_sleepers(std::vector<Step>& sleep, const Step& step, const State& after) {
  std::erase_if(sleep, [&](const Step& s) { return s.actor == step.actor || !still_commutes(s, step, after); });
}

}  // namespace crashcut::scheduler
