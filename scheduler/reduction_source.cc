// Source-set DPOR with sleep sets (Abdulla, Aronis, Jonsson, Sagonas). May run into executions that end asleep.
#include <algorithm>

#include "scheduler/initials.h"
#include "scheduler/races.h"
#include "scheduler/reduction.h"

namespace crashcut::scheduler {

namespace {

class Source : public Reduction {
 public:
  std::uint64_t add_branches(Tree& tree, const Execution& execution) override {
    const Order order(execution.steps);
    const RaceWork work = for_each_race(execution, order, depth_most, is_late,
                                        [&](const Race& race) { add(*tree.path()[race.first], race); });
    was_stopped = work.was_stopped;
    return work.steps;
  }

 private:
  static void add(Node& node, const Race& race) {
    std::size_t first_initial = kNotThere;
    for (std::size_t k = 0; k < race.reversal.size(); ++k) {
      const Step& step = race.reversal[k];
      if (find_actor(race.reversal, step.actor) != k || !is_initial(race.reversal, k)) continue;
      const auto is_same = [&](const Step& s) { return s.actor == step.actor; };
      // One initial that is, was or will be tried here is enough.
      if (std::any_of(node.sleep.begin(), node.sleep.end(), is_same)) return;
      if (std::any_of(node.pending.begin(), node.pending.end(), [&](const Branch& b) { return is_same(b.step); }))
        return;
      if (first_initial == kNotThere) first_initial = k;
    }
    node.pending.push_back({race.reversal[first_initial], {}});
  }
};

}  // namespace

std::unique_ptr<Reduction> make_source() { return std::make_unique<Source>(); }

}  // namespace crashcut::scheduler
