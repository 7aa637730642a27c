#include "scheduler/races.h"

#include <algorithm>

#include "scheduler/dependence.h"
#include "scheduler/primitives/file.h"

namespace crashcut::scheduler {

namespace {

class RaceFinder {
 public:
  RaceFinder(const Execution& execution, const Order& order, ReversalLength length, const std::function<bool()>& is_late,
             const std::function<void(const Race&)>& report)
      : steps_(execution.steps), execution_(execution), order_(order), length_(length), is_late_(is_late), report_(report) {}

  bool find_all() {
    for (std::size_t j = 0; j < steps_.size() && !is_stopped_; ++j) find(j, steps_[j], order_.previous_of(j));
    for (const Pending& p : execution_.pending) {
      if (is_stopped_) break;
      std::size_t previous = steps_.size();
      while (previous > 0 && steps_[previous - 1].actor != p.actor) --previous;
      find(steps_.size(), {p.actor, p.operation}, previous == 0 ? Order::kNone : previous - 1);
    }
    for (const PassedOver& other : execution_.passed_over) {
      if (!is_stopped_ && other.step < steps_.size()) reverse_passing_of_time(other);
    }
    return !is_stopped_;
  }

 private:
  // Time might have passed for the other first. All else that was done came after.
  void reverse_passing_of_time(const PassedOver& other) {
    Race race{other.step, {}, 0};
    State state(execution_.objects);
    for (std::size_t k = 0; k < other.step; ++k) {
      Operation operation = steps_[k].operation;
      state.apply(steps_[k].actor, operation);
    }
    take(state, {other.pending.actor, other.pending.operation}, race);
    report_(race);
  }

  // Races of the step at j, or, at the end, of a pending one.
  void find(std::size_t j, const Step& second, std::size_t previous) {
    constexpr std::uint64_t kLookEvery = 1 << 14;  // pairs of steps
    racing_.clear();
    for (std::size_t i = j; i-- > 0;) {
      if (++looked_ % kLookEvery == 0 && is_late_()) is_stopped_ = true;
      if (is_stopped_) return;
      const Step& first = steps_[i];
      if (first.actor == second.actor || (j < steps_.size() && !order_.is_before(i, j))) continue;
      if (previous != Order::kNone && order_.is_before(i, previous)) continue;
      if (!may_conflict(first.operation, second.operation)) continue;
      // What a call on files would have done that never came to it is not known; what kept it from it is.
      if (j == steps_.size() && is_file_call(second.operation) && is_file_call(first.operation) && !shares_lock(first.operation, second.operation)) continue;
      if (std::any_of(racing_.begin(), racing_.end(), [&](std::size_t k) { return order_.is_before(i, k); })) continue;
      if (!may_be_co_enabled(first.operation, second.operation)) continue;
      Race race{i, {}, 0};
      looked_ += i;  // it is run up to there
      if (looked_ / kLookEvery != (looked_ - i) / kLookEvery && is_late_()) is_stopped_ = true;
      if (!reverse(i, j, second, race)) continue;
      racing_.push_back(i);
      report_(race);
    }
  }

  // False where the second step is not enabled without the first.
  bool reverse(std::size_t i, std::size_t j, const Step& second, Race& race) {
    State state(execution_.objects);
    for (std::size_t k = 0; k < i; ++k) {
      Operation operation = steps_[k].operation;
      state.apply(steps_[k].actor, operation);
    }
    for (std::size_t k = i + 1; k < j; ++k) {
      if (!order_.is_before(i, k)) take(state, steps_[k], race);
    }
    if (!state.is_enabled(second.actor, second.operation)) return false;
    if (is_file_call(second.operation)) return reverse_file_call(j, i, second, state, race);
    race.racing_at = race.reversal.size();
    take(state, second, race);
    if (length_ == ReversalLength::kUpToRacing) return true;
    take_rest(i, j, state, race);
    return true;
  }

  // What the call does without the first step is not known: what follows it might do other things. So it comes last.
  bool reverse_file_call(std::size_t j, std::size_t i, const Step& second, const State& before, Race& race) {
    Step unknown = second;
    unknown.operation.set_footprint(nullptr);
    if (length_ == ReversalLength::kWhole) {
      Race whole = race;
      State state = before;
      take_rest(i, j, state, whole);
      if (state.is_enabled(second.actor, second.operation)) race = std::move(whole);
    }
    race.racing_at = race.reversal.size();
    race.reversal.push_back(unknown);
    return true;
  }

  void take_rest(std::size_t i, std::size_t j, State& state, Race& race) {
    dropped_.clear();
    for (std::size_t k = j + 1; k < steps_.size(); ++k) {
      if (order_.is_before(i, k) || is_after_dropped(k)) continue;
      // It does not depend on the second step, but may want the same last unit.
      if (state.is_enabled(steps_[k].actor, steps_[k].operation)) {
        take(state, steps_[k], race);
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

  static void take(State& state, const Step& step, Race& race) {
    race.reversal.push_back(step);
    state.apply(race.reversal.back());
  }

  const std::vector<Step>& steps_;
  const Execution& execution_;
  const Order& order_;
  ReversalLength length_;
  const std::function<bool()>& is_late_;
  const std::function<void(const Race&)>& report_;
  std::vector<std::size_t> racing_, dropped_;
  std::uint64_t looked_ = 0;
  bool is_stopped_ = false;
};

}  // namespace

bool for_each_race(const Execution& execution, const Order& order, ReversalLength length, const std::function<bool()>& is_late,
                   const std::function<void(const Race&)>& report) {
  return RaceFinder(execution, order, length, is_late, report).find_all();
}

}  // namespace crashcut::scheduler
