// One schedule: at every node the actor that the seed names goes on (Director). What no thread decides is tried all the
// same: every answer (primitives/answer.h), and the failure of a host before each step at which it matters
// (Operation::failure_points). So is what else happens by itself (Primitive::matters_before).
//
// A host's failure matters, too, while some actor waits for what only the host's own steps or its failure can bring.
#include <algorithm>

#include "scheduler/dependence.h"
#include "scheduler/primitives/answer.h"
#include "scheduler/reduction.h"

namespace crashcut::scheduler {

namespace {

// What each actor stands before, while the steps of an execution are taken one after the other.
class NextOperations {
 public:
  explicit NextOperations(const Execution& execution) : execution_(execution) {
    for (std::size_t k = 0; k < execution.steps.size(); ++k) steps_of(execution.steps[k].actor).push_back(k);
    for (const Pending& p : execution.pending) steps_of(p.actor);
    at_.resize(steps_.size());
    pending_.resize(steps_.size(), nullptr);
    for (const Pending& p : execution.pending) pending_[index(p.actor)] = &p.operation;
  }
  void take(const Step& step) { ++at_[index(step.actor)]; }
  std::uint32_t actor_count() const { return static_cast<std::uint32_t>(steps_.size()); }
  // Null: it takes no further step.
  const Operation* of(std::uint32_t actor) const {
    return at_[actor] < steps_[actor].size() ? &execution_.steps[steps_[actor][at_[actor]]].operation : pending_[actor];
  }

 private:
  std::vector<std::size_t>& steps_of(ActorId actor) {
    if (index(actor) >= steps_.size()) steps_.resize(index(actor) + 1);
    return steps_[index(actor)];
  }
  const Execution& execution_;
  std::vector<std::vector<std::size_t>> steps_;  // an actor's, by their places in the execution
  std::vector<std::size_t> at_;                  // how many of these were taken
  std::vector<const Operation*> pending_;        // after the last one
};

class One : public Reduction {
 public:
  bool has_sleepers() const override { return false; }     // nothing is taken to commute
  bool looks_at_states() const override { return false; }  // branches begin with answers and failures

  std::uint64_t add_branches(Tree& tree, const Execution& execution) override {
    NextOperations next(execution);
    State state(execution.objects);
    for (std::size_t k = 0; k < execution.steps.size(); ++k) {
      Node& node = *tree.path()[k];
      const Step& step = execution.steps[k];
      // What follows a failure is compared with what followed other failures, and not with all that comes without one.
      tree.path()[k + 1]->preemptions = node.preemptions + (need_not_happen(step.operation) ? 1 : 0);
      // A node is new where this execution is the first through it.
      if (node.started == 1 && node.pending.empty()) add_others(node, state, next, step);
      Operation operation = step.operation;
      state.apply(step.actor, operation);
      next.take(step);
    }
    return execution.steps.size();
  }

 private:
  static void add_others(Node& node, const State& state, const NextOperations& next, const Step& taken) {
    const bool is_answer = answer::is_given(taken.operation);
    for (std::uint32_t i = 0; i < next.actor_count(); ++i) {
      const Operation* other = next.of(i);
      const auto actor = static_cast<ActorId>(i);
      if (other == nullptr || actor == taken.actor) continue;
      const bool is_other_answer =
          is_answer && answer::is_given(*other) && (*other)[0].object == taken.operation[0].object;
      const bool is_tried = is_other_answer || (need_not_happen(*other) && state.is_enabled(actor, *other) &&
                                                matters(*other, state, next, taken));
      if (is_tried && state.is_enabled(actor, *other))
        node.pending.push_back({.step = {actor, *other}, .is_preemption = need_not_happen(*other)});
    }
  }

  static bool matters(const Operation& other, const State& state, const NextOperations& next, const Step& taken) {
    if (is_failure(other)) return is_failure_point(other, state, next, taken);
    return primitive_of(other[0]).matters_before(state, other, taken.operation);
  }

  // The order of two failures makes no difference, nor that of a failure and what else happens by itself before it.
  static bool is_failure_point(const Operation& failure, const State& state, const NextOperations& next,
                               const Step& taken) {
    if (need_not_happen(taken.operation)) return false;
    const std::uint16_t host = failure.failure_points();
    if ((taken.operation.covered_failures() & host) != 0) return false;
    if ((taken.operation.failure_points() & host) != 0) return true;
    for (std::uint32_t i = 0; i < next.actor_count(); ++i) {
      const Operation* waiting = next.of(i);
      if (waiting == nullptr || need_not_happen(*waiting) || (waiting->failure_points() & host) == 0) continue;
      if (!state.is_gone(*waiting) && !state.is_enabled(static_cast<ActorId>(i), *waiting)) return true;
    }
    return false;
  }
};

}  // namespace

std::unique_ptr<Reduction> make_one() { return std::make_unique<One>(); }

}  // namespace crashcut::scheduler
