// Tree's part that estimates how much is done: the recursive estimator of Kilby and others, as in the Landslide
// thesis, 3.4.3. What is not explored yet is taken to be as large as its siblings. A branch that costs a preemption has
// fewer of them left, and is smaller than one that costs none: it is compared with its like. Other than in a tree of
// recoveries (persist/choices.h), where a choice has all its answers from the beginning, a node gets branches while
// those before them are explored. How many more is guessed from nodes that are finished.
#include <algorithm>
#include <limits>

#include "scheduler/company.h"
#include "scheduler/tree.h"

namespace crashcut::scheduler {

using persist::Estimate;

namespace {

std::size_t cost_of(const Node& parent, const Node& child) { return child.preemptions > parent.preemptions ? 1 : 0; }

// Where one branch is all that is known, another may be so many times smaller or larger.
constexpr double kDoubt = 2;

// More than can ever be explored, and still a number.
constexpr double kLeavesMost = 1e300;

Estimate exactly(double leaves) { return {leaves, leaves, leaves}; }

}  // namespace

Company::Company(const Execution& execution) {
  std::vector<std::size_t> of_actor;  // its place among the members, from 1
  for (std::size_t k = 0; k < execution.steps.size(); ++k) {
    const Step& step = execution.steps[k];
    if (index(step.actor) >= of_actor.size()) of_actor.resize(index(step.actor) + 1);
    std::size_t& place = of_actor[index(step.actor)];
    if (place == 0) {
      members_.push_back({&step.operation, k, k});
      place = members_.size();
    }
    members_[place - 1].last = k;
  }
}

bool Company::is_at(std::size_t k, const State& before) {
  int count = 0;
  for (Member& member : members_) {
    if (member.last < k) continue;
    if (!member.is_there) member.is_there = member.first <= k || is_live(before, *member.first_operation);
    if (member.is_there && ++count == 2) return true;
  }
  return false;
}

void Done::add(std::uint64_t leaves_of_branch) {
  const auto size = static_cast<double>(leaves_of_branch);
  if (branches == 0) first = smallest = largest = size;
  smallest = std::min(smallest, size);
  largest = std::max(largest, size);
  ++branches;
  leaves += leaves_of_branch;
}

Done Done::of(const Finished& finished) {
  Done done{finished};
  if (done.branches > 0)
    done.first = done.smallest = done.largest = static_cast<double>(done.leaves) / static_cast<double>(done.branches);
  return done;
}

void Tree::note_done(Node& parent, const Node& child) {
  const std::uint64_t leaves = std::max<std::uint64_t>(child.done[0].leaves + child.done[1].leaves, 1);
  parent.done[cost_of(parent, child)].add(leaves);
  Finished& alike = done_by_preemptions_[child.preemptions];
  ++alike.branches;
  alike.leaves += leaves;
  if (child.started == 0 || !child.has_company) return;
  if (branching_.size() <= child.depth) branching_.resize(child.depth + 1);
  ++branching_[child.depth].nodes;
  branching_[child.depth].branches += child.started;
  ++all_branching_.nodes;
  all_branching_.branches += child.started;
}

// Branches that the node will get, and that no execution has given reason for yet: as many as make it like finished
// nodes of its depth, or of those below it where there is none.
Estimate Tree::estimate_unknown(const Node& node, const Estimate& open) const {
  if (!has_sleepers_) return exactly(0);  // there all branches of a node are known at once
  if (!node.has_company) return exactly(0);
  // As long as no finished node had a second branch, little says how often there is one. In a short tree it makes no
  // great difference. In one of many thousand nodes nearly all of it is to come, if only one node in eight has another.
  if (all_branching_.branches == all_branching_.nodes) {
    const double second = 1 / (static_cast<double>(all_branching_.nodes) + 8);
    const bool has_second = node.started + node.pending.size() > 1;
    return has_second ? exactly(0) : Estimate{0, second * open.likely, 4 * second * open.high};
  }
  constexpr std::size_t kDepths = 4;
  Branching alike;
  std::size_t depths = 0;
  for (std::size_t depth = node.depth; depth < branching_.size() && depths < kDepths; ++depth) {
    if (branching_[depth].nodes == 0) continue;
    ++depths;
    alike.nodes += branching_[depth].nodes;
    alike.branches += branching_[depth].branches;
    if (depth == node.depth) break;
  }
  if (alike.nodes == 0) return exactly(0);
  const auto known = static_cast<double>(node.started + node.pending.size());
  const double expected = static_cast<double>(alike.branches) / static_cast<double>(alike.nodes);
  const double missing = std::max(expected - known, 0.0);
  // What is not known is above what is.
  return {0, missing * open.likely, (missing + (expected > 1 ? 0.5 : 0)) * open.high};
}

// The branches of the node that were not begun. `open`: the one that is being explored.
Estimate Tree::estimate_pending(const Node& node, const Estimate* open) const {
  Estimate all = exactly(0);
  for (const Branch& branch : node.pending) {
    const std::size_t cost = branch.is_preemption ? 1 : 0;
    const auto has_open = [&](std::size_t of) { return open != nullptr && cost_of(node, *node.open) == of; };
    const auto alike = done_by_preemptions_.find(node.preemptions + static_cast<std::uint32_t>(cost));
    const bool has_known = node.done[cost].branches > 0 || has_open(cost);
    if (!has_known && alike != done_by_preemptions_.end()) {
      all += exactly(static_cast<double>(alike->second.leaves) / static_cast<double>(alike->second.branches));
      continue;
    }
    // As its siblings are: those of its cost, or, where there are none, all.
    Estimate sum = exactly(0), ends{std::numeric_limits<double>::max(), 0, 0};
    double count = 0;
    for (const std::size_t of : {std::size_t{0}, std::size_t{1}}) {
      const Done& done = node.done[of];
      if (has_known && of != cost) continue;
      if (done.branches > 0) {
        sum += exactly(static_cast<double>(done.leaves));
        count += static_cast<double>(done.branches);
        ends.low = std::min(ends.low, done.smallest);
        ends.high = std::max(ends.high, done.largest);
      }
      if (has_open(of)) {
        sum += *open;
        count += 1;
        ends.low = std::min(ends.low, open->low);
        ends.high = std::max(ends.high, open->high);
      }
    }
    if (count == 1) ends = {ends.low / kDoubt, 0, ends.high * kDoubt};
    all += count == 0 ? exactly(1) : Estimate{ends.low, sum.likely / count, ends.high};
  }
  return all;
}

// How many leaves the tree will have. From the lowest open node upwards: a path may have many thousand nodes.
Estimate Tree::estimate() const {
  const Node* node = root_.get();
  while (node->open != nullptr) node = node->open.get();
  Estimate below = exactly(1);
  for (bool has_open = false; node != nullptr; node = node->parent, has_open = true) {
    if (node->started == 0) continue;
    Estimate here = exactly(static_cast<double>(node->done[0].leaves + node->done[1].leaves));
    here += estimate_pending(*node, has_open ? &below : nullptr);
    if (has_open) here += below;
    if (has_open) here += estimate_unknown(*node, below);
    below = {std::min(here.low, kLeavesMost), std::min(here.likely, kLeavesMost), std::min(here.high, kLeavesMost)};
  }
  return below;
}

persist::Fraction Tree::explored_fraction() const {
  if (root_ == nullptr) return 1;
  double done = 0;
  for (const Node* node = root_.get(); node != nullptr; node = node->open.get())
    done += static_cast<double>(node->done[0].leaves + node->done[1].leaves);
  const Estimate all = estimate();
  const auto part = [&](double of) { return std::min(done / std::max(of, 1.0), 1.0); };
  return {part(all.high), part(all.likely), part(all.low)};
}

}  // namespace crashcut::scheduler
