#include "scheduler/races.h"

#include <algorithm>
#include <map>

#include "scheduler/dependence.h"
#include "scheduler/primitives/file.h"
#include "scheduler/primitives/signal.h"

namespace crashcut::scheduler {

namespace {

class RaceFinder {
 public:
  RaceFinder(const Execution& execution, const Order& order, std::uint32_t depth_most,
             const std::function<bool()>& is_late, const std::function<void(const Race&)>& report)
      : steps_(execution.steps),
        execution_(execution),
        order_(order),
        depth_most_(depth_most),
        is_late_(is_late),
        report_(report) {}

  RaceWork find_all() {
    for (std::size_t j = 0; j < steps_.size() && !is_stopped_; ++j) find(j, steps_[j], order_.previous_of(j));
    for (const Pending& p : execution_.pending) {
      if (is_stopped_ || is_exhausted(execution_, p.actor, depth_most_)) continue;
      if (p.operation.host() != kNoHost && state_before(steps_.size()).is_gone(p.operation)) {
        find_races_of_gone({p.actor, p.operation});
      } else {
        find(steps_.size(), {p.actor, p.operation}, order_.last_of(p.actor));
      }
    }
    for (const PassedOver& other : execution_.passed_over) {
      if (!is_stopped_ && other.step < steps_.size()) reverse_passing_of_time(other);
    }
    return {work_, is_stopped_};
  }

 private:
  // Time might have passed for the other first. All else that was done came after.
  void reverse_passing_of_time(const PassedOver& other) {
    Race race{other.step, state_before(other.step), {}, {}};
    State state = race.before;
    take(state, {other.pending.actor, other.pending.operation}, race);
    report_(race);
  }

  // Races of the step at j, or, at the end, of a pending one. One that a signal interrupted has those of what it did,
  // which was to see the signal; and those of what it would have done, had the signal not come: whatever keeps its
  // actor from that, up to the signal's delivery, need not happen before it.
  void find(std::size_t j, const Step& second, std::size_t previous) {
    delivery_ = Order::kNone;
    order_.list_new(j, second.actor, previous, candidates_);
    find_among_candidates(j, second);
    if (is_stopped_ || !second.operation.is_interrupted()) return;
    delivery_ = find_delivery(j, second.operation);
    order_.list_new(steps_.size(), second.actor, previous, candidates_);
    std::erase_if(candidates_, [&](std::size_t k) { return k >= delivery_; });
    find_among_candidates(j, second);
  }
  // A pending step of an actor that is gone with its host races with the end of the host. Once it is taken before that,
  // it has its other races. Where something else kept it from being taken before that, it races with what did.
  void find_races_of_gone(const Step& second) {
    delivery_ = Order::kNone;
    candidates_.clear();
    for (std::size_t k = steps_.size(); k-- > 0 && candidates_.empty();) {
      if (host_ended_by(steps_[k].operation) == second.operation.host()) candidates_.push_back(k);
    }
    find_among_candidates(steps_.size(), second);
    if (racing_.empty()) find(steps_.size(), second, order_.last_of(second.actor));
  }
  void find_among_candidates(std::size_t j, const Step& second) {
    racing_.clear();
    for (const std::size_t i : candidates_) {
      if (is_late(1)) return;
      const Step& first = steps_[i];
      if (!may_conflict(first.operation, second.operation)) continue;
      // What a call on files would have done that never came to it is not known; what kept it from it is.
      if (j == steps_.size() && is_file_call(second.operation) && is_file_call(first.operation) &&
          !shares_lock(first.operation, second.operation))
        continue;
      if (std::any_of(racing_.begin(), racing_.end(), [&](std::size_t k) { return order_.is_before(i, k); })) continue;
      if (!may_be_co_enabled(first.operation, second.operation)) continue;
      if (is_late(steps_.size())) return;  // that many are run again
      Race race{i, state_before(i), {}, {}};
      if (!reverse(i, j, second, race)) continue;
      racing_.push_back(i);
      report_(race);
    }
  }

  // The step by which the signal came to who stood before the one at j.
  std::size_t find_delivery(std::size_t j, const Operation& interrupted) const {
    const ObjectId own = interrupted[interrupted.size() - 1].object;
    const auto delivers = [&](const Access& a) { return a.object == own && a.verb == signal::kInterrupt; };
    for (std::size_t k = j; k-- > 0;) {
      if (std::any_of(steps_[k].operation.begin(), steps_[k].operation.end(), delivers)) return k;
    }
    CHECK(false);
    return Order::kNone;
  }
  // The signal does not come, whatever else is left out.
  void drop_delivery() {
    dropped_.clear();
    if (delivery_ != Order::kNone) dropped_.push_back(delivery_);
  }

  // Asks now and then, by the work that was done.
  bool is_late(std::uint64_t work) {
    constexpr std::uint64_t kAskEvery = 1 << 14;
    work_ += work;
    if (work_ / kAskEvery != (work_ - work) / kAskEvery && is_late_()) is_stopped_ = true;
    return is_stopped_;
  }

  // False where the second step is not enabled without the first.
  bool reverse(std::size_t i, std::size_t j, const Step& second, Race& race) {
    drop_delivery();
    State state = take_until(i, j, race);
    while (!state.is_enabled(second.actor, second.operation)) {
      if (!drop_holders(i, j, second, state, race)) {
        drop_delivery();
        return reverse_somewhere(i, j, second, race);
      }
      state = take_until(i, j, race);
    }
    // The second step comes last: without the first it may do something else than it did, and what follows it might
    // then do other things. The rest does not depend on what it did, but may have taken the last unit of what it wants.
    const std::size_t until = race.reversal.size(), dropped = dropped_.size();
    take_rest(i, j, state, race);
    if (!state.is_enabled(second.actor, second.operation)) {
      race.reversal.resize(until);
      race.taken.resize(until);
      dropped_.resize(dropped);
      if (!is_file_call(second.operation)) return reverse_in_place(i, j, second, race);
    }
    take_racing(state, second, race);
    return true;
  }

  bool reverse_in_place(std::size_t i, std::size_t j, const Step& second, Race& race) {
    State state = take_until(i, j, race);
    take(state, second, race);
    take_rest(i, j, state, race);
    return true;
  }

  // The second step waits for several things, and where all are done that do not come after the first, one of them is
  // missing: a mutex, say, that somebody has taken since, while a signal is there. But in between, with the steps after
  // the second among them, it may have been enabled; or it would have been, had somebody not taken the one before the
  // other came. So the second step is put where it is enabled last; and where it nowhere is, what took from it
  // something that it waits for is dropped, with all that comes after that.
  bool reverse_somewhere(std::size_t i, std::size_t j, const Step& second, Race& race) {
    const std::size_t previous = j < steps_.size() ? order_.previous_of(j) : order_.last_of(second.actor);
    State state = race.before;
    race.reversal.clear();
    race.taken.clear();
    std::size_t enabled_after = SIZE_MAX;
    const std::size_t count = second.operation.size();
    std::vector<bool> was_enabled(count, false), is_enabled_now(count, false);
    std::vector<std::size_t> takers;
    const auto look = [&](std::size_t k) {
      if (previous != Order::kNone && previous > i && k < previous) return;
      if (state.is_enabled(second.actor, second.operation)) enabled_after = race.reversal.size();
      bool is_taken = false;
      for (std::size_t a = 0; a < count; ++a) {
        const Access& access = second.operation[a];
        const bool is = primitive_of(access).enabled(state, second.actor, second.operation, access);
        is_taken = is_taken || (is_enabled_now[a] && !is);
        is_enabled_now[a] = is;
        was_enabled[a] = was_enabled[a] || is;
      }
      if (is_taken && (previous == Order::kNone || !order_.is_before(k, previous))) takers.push_back(k);
    };
    look(i);
    for (std::size_t k = i + 1; k < steps_.size(); ++k) {
      if (k == j || order_.is_before(i, k) || is_after_dropped(k)) continue;
      take(state, k, race);
      look(k);
    }
    if (enabled_after != SIZE_MAX) {
      race.reversal.resize(enabled_after);
      race.taken.resize(enabled_after);
      state = race.before;
      for (Step step : race.reversal) state.apply(step);
      take_racing(state, second, race);
      return true;
    }
    if (std::find(was_enabled.begin(), was_enabled.end(), false) != was_enabled.end()) return false;
    while (!takers.empty()) {
      dropped_.push_back(takers.back());
      takers.pop_back();
      if (is_late(steps_.size())) return false;
      if (reverse_somewhere(i, j, second, race)) return true;
      dropped_.pop_back();
    }
    return false;
  }

  // What a call on files does without the first step is not known.
  static void take_racing(State& state, const Step& second, Race& race) {
    if (!is_file_call(second.operation)) return take(state, second, race);
    race.reversal.push_back(second);
    race.reversal.back().operation.set_footprint(nullptr);
  }

  // The steps before j that do not come after i, nor after what was dropped, from the state before i.
  State take_until(std::size_t i, std::size_t j, Race& race) const {
    State state = race.before;
    race.reversal.clear();
    race.taken.clear();
    for (std::size_t k = i + 1; k < j; ++k) {
      if (!order_.is_before(i, k) && !is_after_dropped(k)) take(state, k, race);
    }
    return state;
  }

  // Of the steps between that were taken, those by which others came to hold, and at the end still do, what the second
  // step waits for: nothing among the rest gives it back, so it is not enabled with any of them. `end` is the state
  // after them. False where there is none, or not all can be dropped.
  bool drop_holders(std::size_t i, std::size_t j, const Step& second, const State& end, const Race& race) {
    const auto holds_at_end = [&](const Step& s) {
      return s.actor != second.actor && holds(end, s.actor, second.operation);
    };
    if (std::none_of(race.reversal.begin(), race.reversal.end(), holds_at_end)) return false;
    State state = race.before;
    std::map<ActorId, std::size_t> holders;
    for (std::size_t k = i + 1; k < j; ++k) {
      if (order_.is_before(i, k) || is_after_dropped(k)) continue;
      const ActorId actor = steps_[k].actor;
      const bool held = holds(state, actor, second.operation);
      apply(state, k);
      if (!held && holds(state, actor, second.operation) && holds_at_end(steps_[k])) holders[actor] = k;
    }
    // Without what comes after them its actor must still stand before it.
    const std::size_t previous = j < steps_.size() ? order_.previous_of(j) : order_.last_of(second.actor);
    for (const auto& [actor, step] : holders) {
      if (previous != Order::kNone && order_.is_before(step, previous)) return false;
      dropped_.push_back(step);
    }
    return !holders.empty();
  }

  // Of a long execution some states are kept: most races are far from its beginning.
  State state_before(std::size_t i) {
    const std::size_t every = std::max<std::size_t>(64, steps_.size() / 16 + 1);
    if (kept_.empty()) kept_.emplace_back(execution_.objects);
    while (kept_.size() <= i / every) {
      kept_.push_back(kept_.back());
      for (std::size_t k = (kept_.size() - 2) * every; k < (kept_.size() - 1) * every; ++k) apply(kept_.back(), k);
    }
    State state = kept_[i / every];
    for (std::size_t k = i / every * every; k < i; ++k) apply(state, k);
    return state;
  }

  void apply(State& state, std::size_t k) const {
    Operation operation = steps_[k].operation;
    state.apply(steps_[k].actor, operation);
  }

  void take_rest(std::size_t i, std::size_t j, State& state, Race& race) {
    for (std::size_t k = j + 1; k < steps_.size(); ++k) {
      if (order_.is_before(i, k) || is_after_dropped(k)) continue;
      // It does not depend on the second step, but may want the same last unit.
      if (state.is_enabled(steps_[k].actor, steps_[k].operation)) {
        take(state, k, race);
      } else {
        dropped_.push_back(k);
      }
    }
  }

  static bool shares_lock(const Operation& x, const Operation& y) {
    for (const Access& a : x) {
      for (const Access& b : y) {
        if (a.object == b.object && a.object != file::kCalls) return true;
      }
    }
    return false;
  }

  bool is_after_dropped(std::size_t k) const {
    return std::any_of(dropped_.begin(), dropped_.end(), [&](std::size_t d) { return order_.is_before(d, k); });
  }

  void take(State& state, std::size_t k, Race& race) const {
    race.taken.push_back(k);
    take(state, steps_[k], race);
  }
  static void take(State& state, const Step& step, Race& race) {
    race.reversal.push_back(step);
    state.apply(race.reversal.back());
  }

  const std::vector<Step>& steps_;
  const Execution& execution_;
  const Order& order_;
  std::uint32_t depth_most_;
  const std::function<bool()>& is_late_;
  const std::function<void(const Race&)>& report_;
  std::vector<std::size_t> candidates_, racing_, dropped_;
  std::size_t delivery_ = Order::kNone;  // of the signal that interrupted the second step
  std::vector<State> kept_;
  std::uint64_t work_ = 0;
  bool is_stopped_ = false;
};

}  // namespace

RaceWork for_each_race(const Execution& execution, const Order& order, std::uint32_t depth_most,
                       const std::function<bool()>& is_late, const std::function<void(const Race&)>& report) {
  return RaceFinder(execution, order, depth_most, is_late, report).find_all();
}

}  // namespace crashcut::scheduler
