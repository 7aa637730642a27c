// Explore: runs a tree of choices to its end, or as far as a budget allows.
//
// Most searches do not finish, so a search always says what it covered: how many runs, whether that was the whole tree,
//   and an estimate of the rest. The tree stays where the budget ended; explore() it again to continue.
//
// The estimate is ChoiceTree's. It assumes that the subtrees of a choice are like those that were explored, so it is a
//   guess, and a poor one until the first choices of the tree have changed.
// Threads: one exploration belongs to the thread of its tree.
#pragma once

#include <chrono>
#include <cstdint>

#include "persist/choices.h"

namespace crashcut::persist {

struct Budget {
  std::uint64_t runs_max = 0;            // 0: as many as there are
  std::chrono::nanoseconds time_max{0};  // 0: as long as it takes; checked between runs, so one run always ends
};

struct Exploration {
  std::uint64_t runs;          // of this exploration, not of earlier ones of the same tree
  bool complete;               // nothing of the tree is left
  bool diverged;               // the last run was not deterministic; tree.path() is what it should have answered
  double estimated_runs_left;  // 0 if complete; infinity if nothing is known
};

// Counts the runs of one exploration against its budget; the clock starts when it is made.
class BudgetMeter {
 public:
  explicit BudgetMeter(const Budget& budget);

  void count_run() { ++runs_; }
  std::uint64_t runs() const { return runs_; }
  bool is_spent() const;

 private:
  Budget budget_;
  std::uint64_t runs_ = 0;
  std::chrono::steady_clock::time_point start_;
};

// Calls run(tree) once for each sequence of answers that is left. At least one run, unless the tree is done.
template <class Run>
Exploration explore(ChoiceTree& tree, const Budget& budget, Run&& run) {
  BudgetMeter meter(budget);
  bool diverged = false;
  while (!tree.done() && !diverged && !meter.is_spent()) {
    tree.begin_run();
    run(tree);
    meter.count_run();
    diverged = tree.run_diverged();
    if (!diverged) tree.advance();
  }
  return Exploration{meter.runs(), tree.done(), diverged, tree.estimated_runs_left()};
}

}  // namespace crashcut::persist
