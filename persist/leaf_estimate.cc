#include "persist/leaf_estimate.h"

#include <algorithm>
#include <limits>

namespace crashcut::persist {

void LeafEstimate::end_child(Node& node, std::uint32_t answer, double weight) {
  std::erase_if(node.open, [&](const Child& child) { return child.answer == answer; });
  if (node.is_ended.size() <= answer) node.is_ended.resize(std::max(node.count, answer + 1));
  node.is_ended[answer] = true;
  if (node.complete == 0) {
    node.first = weight;
  } else {
    sizes_.note(node.count, answer, weight, node.first, node.done / node.complete);
  }
  node.done += weight;
  ++node.complete;
}

LeafEstimate::Node* LeafEstimate::find_child(const Node& node, std::uint32_t answer) {
  const auto child =
      std::find_if(node.open.begin(), node.open.end(), [&](const Child& c) { return c.answer == answer; });
  return child == node.open.end() ? nullptr : child->node.get();
}

// The node that `answer` leads to, made if it is not there.
LeafEstimate::Node& LeafEstimate::child_of(Node& node, std::uint32_t answer) {
  if (answer == kBelow) {
    if (!node.below) node.below = std::make_unique<Node>();
    return *node.below;
  }
  if (Node* child = find_child(node, answer)) return *child;
  return *node.open.emplace_back(Child{answer, std::make_unique<Node>()}).node;
}

void LeafEstimate::add(std::span<const std::uint32_t> path, std::span<const std::uint32_t> counts) {
  ++done_;
  if (path.empty()) {
    is_root_a_run_ = true;
    return;
  }
  parents_.assign(1, &root_);
  for (const std::uint32_t answer : path.first(path.size() - 1)) {
    Node& parent = *parents_.back();
    parents_.push_back(&child_of(parent, answer));
  }
  for (std::size_t i = 0; i < counts.size() && i < path.size(); ++i)
    parents_[path.size() - counts.size() + i]->count = counts[i];
  if (path.back() == kBelow) {  // it meets no choice
    Node& run = child_of(*parents_.back(), kBelow);
    run.done = 1 + (run.below ? run.below->done : 0);
    return;
  }
  const Node* run = find_child(*parents_.back(), path.back());
  double weight = 1 + (run != nullptr && run->below ? run->below->done : 0);
  // The run, and all choices that are complete with it. A run that others hang below waits for its own record.
  for (std::size_t i = path.size(); i > 0 && path[i - 1] != kBelow; --i) {
    Node& parent = *parents_[i - 1];
    end_child(parent, path[i - 1], weight);
    if (!parent.is_complete()) return;
    weight = parent.done;
  }
}

double LeafEstimate::estimate_of(const Node& node) const {
  const std::size_t known = node.complete + node.open.size();
  if (known == 0) return 1 + (node.below ? estimate_of(*node.below) : 0);
  double sum = node.done, first = node.first;
  std::vector<bool> is_known = node.is_ended;
  is_known.resize(std::max<std::size_t>(node.count, is_known.size()));
  for (const Child& child : node.open) {
    const double open = estimate_of(*child.node);
    sum += open;
    if (node.complete == 0 && &child == &node.open.front()) first = open;
    if (child.answer < is_known.size()) is_known[child.answer] = true;
  }
  const double each = sum / static_cast<double>(known);
  for (std::uint32_t answer = 0; answer < node.count; ++answer) {
    if (!is_known[answer]) sum += sizes_.guess(node.count, answer, first, each);
  }
  return sum;
}

Estimate LeafEstimate::estimate() const {
  if (is_root_a_run_ || root_.is_complete()) return {done_, done_, done_};
  return sizes_.range_of(estimate_of(root_), done_);
}

double LeafEstimate::fraction() const {
  if (done_ == 0) return 0;
  return std::clamp(done_ / estimate().likely, std::numeric_limits<double>::min(), 1.0);
}

}  // namespace crashcut::persist
