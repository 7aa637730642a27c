#include "persist/leaf_estimate.h"

#include <algorithm>
#include <limits>

namespace crashcut::persist {

void LeafEstimate::end_child(Node& node, std::uint32_t answer, double weight) {
  std::erase_if(node.open, [&](const Child& child) { return child.answer == answer; });
  if (node.is_ended.size() <= answer) node.is_ended.resize(answer + 1);
  node.is_ended[answer] = true;
  if (node.complete == 0) {
    node.first = weight;
  } else {
    sizes_.note(node.count, answer, weight, node.first);
  }
  node.smallest = node.complete == 0 ? weight : std::min(node.smallest, weight);
  node.largest = std::max(node.largest, weight);
  node.done += weight;
  ++node.complete;
}

void LeafEstimate::add(std::span<const std::uint32_t> path, std::span<const std::uint32_t> counts) {
  ++done_;
  std::vector<Node*> nodes{&root_};
  for (const std::uint32_t answer : path) {
    Node& at = *nodes.back();
    if (answer == kBelow) {
      if (!at.below) at.below = std::make_unique<Node>();
      nodes.push_back(at.below.get());
      continue;
    }
    auto child = std::find_if(at.open.begin(), at.open.end(), [&](const Child& c) { return c.answer == answer; });
    if (child == at.open.end()) child = at.open.insert(child, Child{answer, std::make_unique<Node>()});
    nodes.push_back(child->node.get());
  }
  for (std::size_t i = 0; i < counts.size() && i < path.size(); ++i)
    nodes[path.size() - counts.size() + i]->count = counts[i];
  Node& run = *nodes.back();
  double weight = 1 + (run.below ? run.below->done : 0);
  // The run, and all choices that are complete with it. A run that others hang below waits for its own record.
  for (std::size_t i = path.size(); i > 0; --i) {
    Node& parent = *nodes[i - 1];
    if (path[i - 1] == kBelow) {
      if (i == path.size()) parent.below->done = weight;  // it meets no choice
      return;
    }
    end_child(parent, path[i - 1], weight);
    if (!parent.is_complete()) return;
    weight = parent.done;
  }
  if (path.empty()) is_root_a_run_ = true;
}

Estimate LeafEstimate::estimate_of(const Node& node) const {
  const std::size_t known = node.complete + node.open.size();
  if (known == 0) {
    Estimate run;
    if (node.below) run += estimate_of(*node.below);
    return run;
  }
  Estimate sum{node.done, node.done, node.done}, first{node.first, node.first, node.first};
  Estimate each{node.complete == 0 ? std::numeric_limits<double>::infinity() : node.smallest, 0, node.largest};
  std::vector<bool> is_known = node.is_ended;
  is_known.resize(std::max<std::size_t>(node.count, is_known.size()));
  for (const Child& child : node.open) {
    const Estimate open = estimate_of(*child.node);
    sum += open;
    each.low = std::min(each.low, open.low);
    each.high = std::max(each.high, open.high);
    if (node.complete == 0 && &child == &node.open.front()) first = open;
    if (child.answer < is_known.size()) is_known[child.answer] = true;
  }
  each.likely = sum.likely / static_cast<double>(known);
  for (std::uint32_t answer = 0; answer < node.count; ++answer) {
    if (!is_known[answer]) sum += sizes_.guess(node.count, answer, first, each);
  }
  return sum;
}

Estimate LeafEstimate::estimate() const {
  if (is_root_a_run_ || root_.is_complete()) return {done_, done_, done_};
  return estimate_of(root_);
}

double LeafEstimate::fraction() const {
  if (done_ == 0) return 0;
  return std::clamp(done_ / estimate().likely, std::numeric_limits<double>::min(), 1.0);
}

}  // namespace crashcut::persist
