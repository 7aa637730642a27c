// Optimal DPOR with wakeup trees (Abdulla, Aronis, Jonsson, Sagonas, Source Sets: A Foundation for Optimal Dynamic
// Partial Order Reduction, 2017, algorithm 2), for steps that block each other: races.h says what is reversed.
#include <algorithm>
#include <optional>

#include "scheduler/dependence.h"
#include "scheduler/initials.h"
#include "scheduler/races.h"
#include "scheduler/reduction.h"
#include "scheduler/seen_calls.h"

namespace crashcut::scheduler {

namespace {

Branch make_chain(std::span<const Step> sequence) {
  Branch branch{sequence.back(), {}};
  for (std::size_t k = sequence.size() - 1; k-- > 0;) {
    Branch above{sequence[k], {}};
    above.children.push_back(std::move(branch));
    branch = std::move(above);
  }
  return branch;
}

// Adds the sequence to a wakeup tree, below the first branch that agrees with it; nothing where a whole branch does. A
// branch that may turn out to be explored already, and be dropped, vouches for nothing beyond it.
template <class Branches>
void insert(Branches& branches, State& state, std::vector<Step> sequence, bool is_uncertain) {
  for (Branch& branch : branches) {
    Step first = branch.step;
    State(state).apply(first);
    if (!is_weak_initial(sequence, state, first)) continue;
    const std::size_t place = find_actor(sequence, branch.step.actor);
    if (branch.children.empty()) {
      const bool is_more = sequence.size() > (place != kNotThere ? 1u : 0u);
      if (is_uncertain && is_more) continue;
      return;
    }
    if (place != kNotThere) sequence.erase(sequence.begin() + static_cast<std::ptrdiff_t>(place));
    if (sequence.empty()) return;
    state.apply(first);
    return insert(branch.children, state, std::move(sequence), is_uncertain);
  }
  branches.push_back(make_chain(sequence));
}

// What a call on files does is known once it is done, and it may do something else in another place. So of a reversal
// the last step is not known, where it is such a call. Optimality takes two things then:
//   (1) What has been seen is used. If a sleeper commutes with all of a reversal, also with what the call will do,
//       then the same steps were explored below the sleeper, and there the call came after the same steps: it was seen
//       (seen_calls.h). So a call that was not seen is met by every sleeper that is a call on files too, as
//       is_weak_initial() takes it.
//   (2) What was put in a wakeup tree behind branches that were not explored then is looked at once more when its
//       turn comes (Tree::prune), and dropped where it is explored by now. Until then it does not vouch for others
//       (insert).
class Optimal : public Reduction {
 public:
  bool has_wakeup_trees() const override { return true; }

  std::uint64_t add_branches(Tree& tree, const Execution& execution) override {
    const Order order(execution.steps);
    const auto is_call = [](const Step& s) { return is_file_call(s.operation); };
    std::optional<NamedSteps> named;
    if (std::any_of(execution.steps.begin(), execution.steps.end(), is_call))
      seen_.learn(named.emplace(execution.steps, order));
    const RaceWork work = for_each_race(execution, order, depth_most, is_late,
                                        [&](const Race& race) { add(*tree.path()[race.first], race, named); });
    was_stopped = work.was_stopped;
    return work.steps;
  }

  const Operation* foresee(std::span<const Step> before, ActorId actor) const override {
    const Order order(before);
    return seen_.find(NamedSteps(before, order), std::vector<bool>(before.size(), true), actor);
  }

 private:
  void add(Node& node, const Race& race, const std::optional<NamedSteps>& named) {
    std::vector<Step> sequence = race.reversal;
    Step& last = sequence.back();
    if (is_unknown(last.operation) && named) {
      std::vector<bool> is_before(named->steps().size(), false);
      std::fill_n(is_before.begin(), race.first, true);
      for (const std::size_t k : race.taken) is_before[k] = true;
      if (const Operation* seen = seen_.find(*named, is_before, last.actor)) last.operation = *seen;
    }
    if (is_vouched_for(node.sleep, race.before, sequence)) return;
    node.is_uncertain = node.is_uncertain || is_unknown(last.operation);
    State state = race.before;
    insert(node.pending, state, std::move(sequence), node.is_uncertain);
  }

  SeenCalls seen_;
};

}  // namespace

std::unique_ptr<Reduction> make_optimal() { return std::make_unique<Optimal>(); }

}  // namespace crashcut::scheduler
