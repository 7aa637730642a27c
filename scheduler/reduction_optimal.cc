// Optimal DPOR with wakeup trees (Abdulla, Aronis, Jonsson, Sagonas, Source Sets: A Foundation for Optimal Dynamic
// Partial Order Reduction, 2017, algorithm 2), for steps that block each other: races.h says what is reversed.
#include <algorithm>

#include "scheduler/dependence.h"
#include "scheduler/initials.h"
#include "scheduler/races.h"
#include "scheduler/reduction.h"

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

// Adds the sequence to a wakeup tree, below the first branch that agrees with it; nothing where a whole branch does.
template <class Branches>
void insert(Branches& branches, State& state, std::vector<Step>& sequence) {
  for (Branch& branch : branches) {
    Step first = branch.step;
    State(state).apply(first);
    if (!is_weak_initial(sequence, state, first)) continue;
    if (branch.children.empty()) return;
    const std::size_t place = find_actor(sequence, branch.step.actor);
    if (place != kNotThere) sequence.erase(sequence.begin() + static_cast<std::ptrdiff_t>(place));
    if (sequence.empty()) return;
    state.apply(first);
    return insert(branch.children, state, sequence);
  }
  branches.push_back(make_chain(sequence));
}

// Whether what sleeps at the node vouches for the reversal. Who slept there at arrival was to be woken by all that leads to a
// new class; but what a call on files does is taken to meet every other until it is done, so a branch may turn out to leave
// another call asleep. The classes that such a branch leads to without that call are found nowhere else: it vouches only for
// reversals that it takes part in, as under source sets.
bool is_explored(const Node& node, const Race& race) {
  for (std::size_t k = 0; k < node.sleep.size(); ++k) {
    const Step& sleeper = node.sleep[k];
    const bool slept_at_arrival = k + node.started < node.sleep.size();
    if (slept_at_arrival && is_file_call(sleeper.operation) && find_actor(race.reversal, sleeper.actor) == kNotThere) continue;
    if (is_weak_initial(race.reversal, race.before, sleeper)) return true;
  }
  return false;
}

class Optimal : public Reduction {
 public:
  void add_branches(Tree& tree, const Execution& execution) override {
    const Order order(execution.steps);
    was_stopped = !for_each_race(execution, order, depth_most, is_late, [&](const Race& race) {
      Node& node = *tree.path()[race.first];
      if (is_explored(node, race)) return;
      State state = race.before;
      std::vector<Step> sequence = race.reversal;
      insert(node.pending, state, sequence);
    });
  }
};

}  // namespace

std::unique_ptr<Reduction> make_optimal() { return std::make_unique<Optimal>(); }

}  // namespace crashcut::scheduler
