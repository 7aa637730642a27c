#include "persist/leaf_estimate.h"

#include <algorithm>
#include <limits>

namespace crashcut::persist {

// A tree may be deeper than the stack has room for destructors that call each other.
LeafEstimate::Node::~Node() {
  std::vector<std::unique_ptr<Node>> gone;
  const auto take_children = [&](Node& node) {
    for (Child& child : node.open) gone.push_back(std::move(child.node));
    if (node.below) gone.push_back(std::move(node.below));
    node.open.clear();
  };
  for (take_children(*this); !gone.empty();) {
    const std::unique_ptr<Node> node = std::move(gone.back());
    gone.pop_back();
    take_children(*node);
  }
}

// `depth` is the number of the node's choice.
void LeafEstimate::end_child(Node& node, std::size_t depth, std::uint32_t answer, double weight) {
  for (Cursor& cursor : cursors_) {
    if (cursor.nodes.size() <= depth + 1 || cursor.nodes[depth] != &node || cursor.path[depth] != answer) continue;
    cursor.nodes.resize(depth + 1);
    cursor.path.resize(depth);
  }
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

// How many choices of the path the cursor's nodes know already, without the last one.
std::size_t LeafEstimate::shared_length(const Cursor& cursor, std::span<const std::uint32_t> path) {
  const std::size_t most = std::min(cursor.nodes.size(), path.size()) - 1;
  const auto known = cursor.path.begin();
  const auto end = std::mismatch(known, known + static_cast<std::ptrdiff_t>(most), path.begin()).first;
  return static_cast<std::size_t>(end - known);
}

// The cursor that shares most of the path. If that is little, another one is made, or the one that was not used for
// longest starts anew: several processes add their runs in turn.
LeafEstimate::Cursor& LeafEstimate::cursor_near(std::span<const std::uint32_t> path) {
  std::size_t best = 0, shared = 0;
  for (std::size_t i = cursors_.size(); i-- > 0 && shared + kNearby < path.size();) {
    const std::size_t length = shared_length(cursors_[i], path);
    if (length < shared) continue;
    best = i;
    shared = length;
  }
  if (cursors_.empty() || (shared + kNearby < path.size() && cursors_.size() < kCursorsMost)) {
    cursors_.push_back(cursors_.empty() ? Cursor{{}, {root_.get()}} : Cursor(cursors_[best]));
  } else {
    const auto at = cursors_.begin() + static_cast<std::ptrdiff_t>(best);
    std::rotate(at, at + 1, cursors_.end());
  }
  return cursors_.back();
}

// Of the last choices of the path.
void LeafEstimate::set_counts(Cursor& cursor, std::size_t shared, std::span<const std::uint32_t> counts) {
  const std::size_t first = cursor.nodes.size() - counts.size();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (first + i >= cursor.counted_from && first + i < shared) i = shared - first;
    cursor.nodes[first + i]->count = counts[i];
  }
  cursor.counted_from = first;
}

void LeafEstimate::add(std::span<const std::uint32_t> path, std::span<const std::uint32_t> counts) {
  ++done_;
  if (path.empty()) {
    is_root_a_run_ = true;
    return;
  }
  Cursor& cursor = cursor_near(path);
  const std::size_t shared = shared_length(cursor, path);
  std::vector<Node*>& parents = cursor.nodes;
  parents.resize(shared + 1);
  for (const std::uint32_t answer : path.subspan(shared, path.size() - 1 - shared))
    parents.push_back(&child_of(*parents.back(), answer));
  cursor.path.resize(shared);
  cursor.path.insert(cursor.path.end(), path.begin() + static_cast<std::ptrdiff_t>(shared), path.end());
  set_counts(cursor, shared, counts.first(std::min(counts.size(), path.size())));
  if (path.back() == kBelow) {  // it meets no choice
    Node& run = child_of(*parents.back(), kBelow);
    run.done = 1 + (run.below ? run.below->done : 0);
    return;
  }
  const Node* run = find_child(*parents.back(), path.back());
  double weight = 1 + (run != nullptr && run->below ? run->below->done : 0);
  // The run, and all choices that are complete with it. A run that others hang below waits for its own record.
  for (std::size_t i = path.size(); i > 0 && path[i - 1] != kBelow; --i) {
    Node& parent = *parents[i - 1];
    end_child(parent, i - 1, path[i - 1], weight);
    if (!parent.is_complete()) return;
    weight = parent.done;
  }
}

double LeafEstimate::estimate_of(const Node& node, std::span<const double> open) const {
  const std::size_t known = node.complete + node.open.size();
  if (known == 0) return 1 + (node.below ? open.front() : 0);
  double sum = node.done;
  for (const double size : open.first(node.open.size())) sum += size;
  const double first = node.complete == 0 ? open.front() : node.first;
  const double each = sum / static_cast<double>(known);
  for (std::uint32_t answer = 0; answer < node.count; ++answer) {
    const bool is_ended = answer < node.is_ended.size() && node.is_ended[answer];
    if (!is_ended && find_child(node, answer) == nullptr) sum += sizes_.guess(node.count, answer, first, each);
  }
  return sum;
}

// A recovery may have met a million choices, each a node below the one before: too deep for the stack.
double LeafEstimate::estimate_below(const Node& node) const {
  struct Visit {
    const Node* node;
    std::size_t sizes_begin;  // where the sizes of its children begin
    std::size_t next;         // child
  };
  const auto child = [](const Node& of, std::size_t i) -> const Node* {
    if (i < of.open.size()) return of.open[i].node.get();
    return of.open.empty() && of.complete == 0 && i == 0 ? of.below.get() : nullptr;
  };
  std::vector<double> sizes;
  std::vector<Visit> visits{{&node, 0, 0}};
  for (;;) {
    Visit& visit = visits.back();
    if (const Node* next = child(*visit.node, visit.next)) {
      ++visit.next;
      visits.push_back({next, sizes.size(), 0});
      continue;
    }
    const double size = estimate_of(*visit.node, std::span(sizes).subspan(visit.sizes_begin));
    sizes.resize(visit.sizes_begin);
    visits.pop_back();
    if (visits.empty()) return size;
    sizes.push_back(size);
  }
}

Estimate LeafEstimate::estimate() const {
  if (is_root_a_run_ || root_->is_complete()) return {done_, done_, done_};
  return sizes_.range_of(estimate_below(*root_), done_);
}

double LeafEstimate::fraction() const {
  if (done_ == 0) return 0;
  return std::clamp(done_ / estimate().likely, std::numeric_limits<double>::min(), 1.0);
}

}  // namespace crashcut::persist
