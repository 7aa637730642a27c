#include "scheduler/left_out.h"

#include <algorithm>
#include <map>
#include <optional>

#include "scheduler/dependence.h"
#include "scheduler/order.h"
#include "scheduler/primitives/condition.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/stir.h"
#include "scheduler/primitives/timer.h"

namespace crashcut::scheduler {

namespace {

const Access* find_timer(const Operation& operation, timer::Verb verb) {
  const auto it = std::find_if(operation.begin(), operation.end(), [&](const Access& a) {
    return primitive_of(a.object) == PrimitiveId::kTimer && a.verb == verb;
  });
  return it == operation.end() ? nullptr : it;
}

bool is_arming(const Step& step) { return find_timer(step.operation, timer::kArm) != nullptr; }

// A timed wait whose timer could not be early any more.
struct LateWait {
  ActorId actor;
  ObjectId timer;
  Operation operation;   // the one that waits
  std::size_t place;     // of it in the execution, or its end
  std::size_t previous;  // the thread's step before it
};

class LateWaits {
 public:
  explicit LateWaits(const Execution& execution)
      : execution_(execution), steps_(execution.steps), order_(execution.steps) {}

  bool any_might_run_out() const {
    State state(execution_.objects);
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      const Access* arm = find_timer(steps_[k].operation, timer::kArm);
      if (arm != nullptr && timer::early_left(state.object(arm->object)) == 0) {
        const std::optional<LateWait> wait = find_wait(k, arm->object);
        if (wait && might_run_out(*wait)) return true;
      }
      apply(state, k);
    }
    return false;
  }

 private:
  void apply(State& state, std::size_t k) const {
    Operation operation = steps_[k].operation;
    state.apply(steps_[k].actor, operation);
  }

  // The wait that the timer was armed for. None where the execution ended before it.
  std::optional<LateWait> find_wait(std::size_t arm, ObjectId timer) const {
    const ActorId actor = steps_[arm].actor;
    std::size_t previous = arm;
    for (std::size_t k = arm + 1; k < steps_.size(); ++k) {
      if (steps_[k].actor != actor) continue;
      if (find_timer(steps_[k].operation, timer::kTake) != nullptr)
        return LateWait{actor, timer, steps_[k].operation, k, previous};
      previous = k;
    }
    for (const Pending& p : execution_.pending) {
      if (p.actor == actor && find_timer(p.operation, timer::kTake) != nullptr)
        return LateWait{actor, timer, p.operation, steps_.size(), previous};
    }
    return std::nullopt;
  }

  bool might_run_out(const LateWait& wait) const {
    // What cannot be otherwise when the wait begins.
    State state(execution_.objects);
    std::vector<bool> is_past(steps_.size(), false);
    for (std::size_t k = 0; k <= wait.previous; ++k) {
      is_past[k] = k == wait.previous || order_.is_before(k, wait.previous);
      if (is_past[k]) apply(state, k);
    }
    const Access& first = wait.operation[0];
    const bool has_to_wait = !primitive_of(first).enabled(state, wait.actor, wait.operation, first);
    // Once time has run out for it, which comes after all before and before all after, it does not wait any more.
    const std::size_t end = find_run_out(wait);
    std::map<ActorId, Meanwhile> others;
    std::size_t steps = 0;
    for (std::size_t k = 0; k < end; ++k) {
      const Step& step = steps_[k];
      if (is_past[k] || step.actor == wait.actor || waits_for_time(step.operation)) continue;
      if (wait.place < steps_.size() && order_.is_before(wait.place, k)) continue;
      // Somebody goes on while it waits.
      if (has_to_wait) return true;
      ++steps;
      if (!is_queue(first)) others[step.actor].note(step.operation, first);
    }
    return may_be_taken_from(state.object(first.object), first, others, steps);
  }

  // What another thread may do before the wait ends, up to where least is left of what is waited for.
  struct Meanwhile {
    std::size_t steps = 0, steps_to_least = 0;
    std::int64_t units = 0, units_least = 0;  // of a semaphore
    bool has_met = false;                     // anything else: that it touched it in a way that matters
    void note(const Operation& operation, const Access& first) {
      ++steps;
      for (const Access& a : operation) {
        if (a.object != first.object || !primitive_of(a).conflicting(a, first)) continue;
        if (primitive_of(a.object) == PrimitiveId::kSemaphore) {
          units += a.verb == semaphore::kPost ? 1 : semaphore::takes(a) ? -1 : 0;
        } else if (!has_met) {
          has_met = true;
          steps_to_least = steps;
        }
      }
      if (units >= units_least) return;
      units_least = units;
      steps_to_least = steps;
    }
  };

  // Whether others may have taken what is waited for, and somebody goes on then.
  static bool may_be_taken_from(const Object& object, const Access& first, const std::map<ActorId, Meanwhile>& others,
                                std::size_t steps) {
    if (primitive_of(first.object) != PrimitiveId::kSemaphore) {
      return std::any_of(others.begin(), others.end(), [&](const auto& other) {
        return other.second.has_met && steps > other.second.steps_to_least;
      });
    }
    std::int64_t least = semaphore::count(object);
    std::size_t used = 0;
    for (const auto& [actor, other] : others) {
      least += other.units_least;
      used += other.steps_to_least;
    }
    return least <= 0 && steps > used;
  }

  // Who waits there was in the queue when the wait began, or had left it: others do not make it wait.
  static bool is_queue(const Access& access) {
    const PrimitiveId primitive = primitive_of(access.object);
    return primitive == PrimitiveId::kCondition || primitive == PrimitiveId::kFutex;
  }

  std::size_t find_run_out(const LateWait& wait) const {
    for (std::size_t k = wait.previous + 1; k < wait.place; ++k) {
      const Access* late = find_timer(steps_[k].operation, timer::kRunOut);
      if (late != nullptr && late->object == wait.timer) return k;
    }
    return steps_.size();
  }

  const Execution& execution_;
  const std::vector<Step>& steps_;
  Order order_;
};

}  // namespace

bool leaves_out_timeout(const Execution& execution) {
  if (std::none_of(execution.steps.begin(), execution.steps.end(), is_arming)) return false;
  return LateWaits(execution).any_might_run_out();
}

std::uint64_t count_unstirred_waits(const Execution& execution) {
  return static_cast<std::uint64_t>(std::count_if(execution.steps.begin(), execution.steps.end(), [](const Step& step) {
    const auto is_of = [&](PrimitiveId primitive, std::uint8_t verb) {
      return std::any_of(step.operation.begin(), step.operation.end(),
                         [&](const Access& a) { return primitive_of(a.object) == primitive && a.verb == verb; });
    };
    return is_of(PrimitiveId::kCondition, condition::kEnqueue) && !is_of(PrimitiveId::kStir, stir::kHeed);
  }));
}

}  // namespace crashcut::scheduler
