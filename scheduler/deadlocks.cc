#include "scheduler/deadlocks.h"

#include <algorithm>
#include <map>

#include "scheduler/dependence.h"
#include "scheduler/order.h"

namespace crashcut::scheduler {

namespace {

Operation not_done(Operation operation) {
  for (Access& access : operation) {
    access.result = kNoResult;
    access.seen_host = 0;
  }
  return operation;
}

// Whether nothing but what need not happen can go on after the steps that are not left out, and something is left to
// do.
template <class IsLeftOut>
bool is_stuck(const Execution& execution, Execution& prefix, IsLeftOut&& is_left_out) {
  prefix.objects = execution.objects;
  prefix.ending = Ending::kStuck;
  State state(execution.objects);
  std::map<ActorId, Operation> next;
  for (std::size_t k = 0; k < execution.steps.size(); ++k) {
    const Step& step = execution.steps[k];
    if (is_left_out(k)) {
      if (!next.contains(step.actor)) next.emplace(step.actor, not_done(step.operation));
    } else {
      state.apply(prefix.steps.emplace_back(step));
    }
  }
  for (const Pending& p : execution.pending) next.try_emplace(p.actor, p.operation);
  bool is_any_undone = false;
  for (const auto& [actor, operation] : next) {
    if (!is_live(state, operation)) continue;
    if (!need_not_happen(operation) && state.is_enabled(actor, operation)) return false;
    is_any_undone = is_any_undone || is_left_undone(state, operation);
    prefix.pending.push_back({actor, operation});
  }
  return is_any_undone && !state.is_over();
}

class Prefixes {
 public:
  explicit Prefixes(const Execution& execution) : execution_(execution), order_(execution.steps) {
    for (std::size_t k = 0; k < execution.steps.size(); ++k) {
      if (need_not_happen(execution.steps[k].operation)) failures_.push_back(k);
    }
  }

  void find(const std::function<void(const Execution&)>& report) const {
    const std::size_t count = failures_.size();
    const std::uint64_t sets = count <= kSetsOf ? std::uint64_t{1} << count : count + 1;
    for (std::uint64_t set = 1; set < sets; ++set) {
      const std::vector<std::size_t> left_out = count <= kSetsOf ? members(set) : std::vector{failures_[set - 1]};
      if (count <= kSetsOf && !is_closed(set, left_out)) continue;
      Execution prefix;
      if (is_stuck(left_out, prefix)) report(prefix);
    }
  }

 private:
  static constexpr std::size_t kSetsOf = 8;

  std::vector<std::size_t> members(std::uint64_t set) const {
    std::vector<std::size_t> steps;
    for (std::size_t f = 0; f < failures_.size(); ++f) {
      if ((set >> f & 1) != 0) steps.push_back(failures_[f]);
    }
    return steps;
  }
  bool is_after(std::size_t k, const std::vector<std::size_t>& left_out) const {
    return std::any_of(left_out.begin(), left_out.end(), [&](std::size_t f) { return order_.is_before(f, k); });
  }
  // Whether all failures that come after one that is left out are left out, too. Else another set says the same.
  bool is_closed(std::uint64_t set, const std::vector<std::size_t>& left_out) const {
    for (std::size_t f = 0; f < failures_.size(); ++f) {
      if ((set >> f & 1) == 0 && is_after(failures_[f], left_out)) return false;
    }
    return true;
  }

  bool is_stuck(const std::vector<std::size_t>& left_out, Execution& prefix) const {
    return scheduler::is_stuck(execution_, prefix, [&](std::size_t k) { return is_after(k, left_out); });
  }

  const Execution& execution_;
  Order order_;
  std::vector<std::size_t> failures_;
};

}  // namespace

void for_each_deadlock(const Execution& execution, const std::function<void(const Execution&)>& report) {
  const auto fails = [](const Step& step) { return need_not_happen(step.operation); };
  if (std::any_of(execution.steps.begin(), execution.steps.end(), fails)) Prefixes(execution).find(report);
}

void for_each_deadlock_of_schedule(const Execution& execution, const std::function<void(const Execution&)>& report) {
  for (std::size_t k = 0; k < execution.steps.size(); ++k) {
    if (!need_not_happen(execution.steps[k].operation)) continue;
    Execution prefix;
    if (is_stuck(execution, prefix, [&](std::size_t i) { return i >= k; })) report(prefix);
  }
}

}  // namespace crashcut::scheduler
