// No reduction: at every node every enabled actor is tried. With a bound on preemptions, every schedule within it
// (iterative context bounding: few preemptions find most bugs).
#include <algorithm>
#include <map>

#include "scheduler/dependence.h"
#include "scheduler/reduction.h"

namespace crashcut::scheduler {

namespace {

class None : public Reduction {
 public:
  explicit None(std::uint32_t preemptions_most) : preemptions_most_(preemptions_most) {}

  bool has_sleepers() const override { return false; }  // nothing is taken to commute

  std::uint64_t add_branches(Tree& tree, const Execution& execution) override {
    const std::vector<Node*>& path = tree.path();
    // What every actor stands before, from the end backwards.
    std::map<ActorId, Operation> next;
    for (const Pending& p : execution.pending) {
      if (!is_exhausted(execution, p.actor, depth_most)) next[p.actor] = p.operation;
    }
    std::vector<std::map<ActorId, Operation>> before(execution.steps.size());
    for (std::size_t k = execution.steps.size(); k-- > 0;) {
      next[execution.steps[k].actor] = execution.steps[k].operation;
      before[k] = next;
    }
    State state(execution.objects);
    for (std::size_t k = 0; k < execution.steps.size(); ++k) {
      Node& node = *path[k];
      // A node is new where this execution is the first through it.
      if (node.started == 1 && node.pending.empty()) {
        add_others(node, state, before[k], execution.steps[k].actor);
        for (const PassedOver& other : execution.passed_over) {
          if (other.step == k) add(node, state, before[k], {other.pending.actor, other.pending.operation});
        }
      }
      count_preemptions(*path[k + 1], state, before[k]);
      Operation operation = execution.steps[k].operation;
      state.apply(execution.steps[k].actor, operation);
    }
    return execution.steps.size();
  }

 private:
  void add_others(Node& node, const State& state, const std::map<ActorId, Operation>& next, ActorId taken) {
    for (const auto& [actor, operation] : next) {
      if (actor != taken && !waits_for_time(operation) && state.is_enabled(actor, operation))
        add(node, state, next, {actor, operation});
    }
  }
  void add(Node& node, const State& state, const std::map<ActorId, Operation>& next, const Step& step) {
    const std::uint32_t preemptions = preemptions_after(node, state, next, step.actor);
    if (preemptions > preemptions_most_) {
      has_left_out = true;
    } else {
      node.pending.push_back({.step = step, .is_preemption = preemptions > node.preemptions});
    }
  }
  static std::uint32_t preemptions_after(const Node& node, const State& state, const std::map<ActorId, Operation>& next,
                                         ActorId actor) {
    if (node.parent == nullptr || node.step.actor == actor) return node.preemptions;
    const auto it = next.find(node.step.actor);
    const bool could_go_on = it != next.end() && !waits_for_time(it->second) && state.is_enabled(it->first, it->second);
    return node.preemptions + (could_go_on ? 1 : 0);
  }
  static void count_preemptions(Node& child, const State& state, const std::map<ActorId, Operation>& next) {
    child.preemptions = preemptions_after(*child.parent, state, next, child.step.actor);
  }

  std::uint32_t preemptions_most_;
};

}  // namespace

std::unique_ptr<Reduction> make_none(std::uint32_t preemptions_most) {
  return std::make_unique<None>(preemptions_most);
}

std::unique_ptr<Reduction> make_reduction(ReductionName name) {
  switch (name) {
    case ReductionName::kNone:
      return make_none();
    case ReductionName::kSource:
      return make_source();
    case ReductionName::kOptimal:
      return make_optimal();
    case ReductionName::kOne:
      return make_one();
  }
  return nullptr;
}

}  // namespace crashcut::scheduler
