// Tree's part that estimates how much is done: the recursive estimator of Kilby and others, as in the Landslide
// thesis, 3.4.3. What is not explored yet is taken to be as large as its siblings. A branch that costs a preemption has
// fewer of them left, and is smaller than one that costs none: it is compared with its like.
#include <algorithm>

#include "scheduler/tree.h"

namespace crashcut::scheduler {

namespace {

std::uint32_t cost_of(const Node& parent, const Node& child) { return child.preemptions > parent.preemptions ? 1 : 0; }

}  // namespace

void Tree::note_done(Node& parent, const Node& child) {
  const std::uint64_t leaves = std::max<std::uint64_t>(child.done[0].leaves + child.done[1].leaves, 1);
  for (Finished* finished : {&parent.done[cost_of(parent, child)], &done_by_preemptions_[child.preemptions]}) {
    ++finished->branches;
    finished->leaves += leaves;
  }
}

// How many leaves the tree below the node will have.
double Tree::estimate(const Node& node) const {
  if (node.started == 0) return 1;
  const double open = node.open == nullptr ? 0 : estimate(*node.open);
  double leaves[2] = {}, branches[2] = {};
  for (const int cost : {0, 1}) {
    const bool has_open = node.open != nullptr && cost_of(node, *node.open) == static_cast<std::uint32_t>(cost);
    leaves[cost] = static_cast<double>(node.done[cost].leaves) + (has_open ? open : 0);
    branches[cost] = static_cast<double>(node.done[cost].branches) + (has_open ? 1 : 0);
  }
  double all = leaves[0] + leaves[1];
  const double any = all / std::max(branches[0] + branches[1], 1.0);
  for (const Branch& branch : node.pending) {
    const int cost = branch.is_preemption ? 1 : 0;
    const auto alike = done_by_preemptions_.find(node.preemptions + static_cast<std::uint32_t>(cost));
    if (branches[cost] > 0) {
      all += leaves[cost] / branches[cost];
    } else if (alike != done_by_preemptions_.end()) {
      all += static_cast<double>(alike->second.leaves) / static_cast<double>(alike->second.branches);
    } else {
      all += any;
    }
  }
  return all;
}

double Tree::explored_fraction() const {
  if (root_ == nullptr) return 1;
  double done = 0;
  for (const Node* node = root_.get(); node != nullptr; node = node->open.get())
    done += static_cast<double>(node->done[0].leaves + node->done[1].leaves);
  return done / std::max(estimate(*root_), 1.0);
}

}  // namespace crashcut::scheduler
