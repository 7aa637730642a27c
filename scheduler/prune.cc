// Tree's part that drops what need not be explored.
#include "scheduler/dependence.h"
#include "scheduler/initials.h"
#include "scheduler/tree.h"

namespace crashcut::scheduler {

namespace {

std::vector<Step> first_leaf_of(const Branch& branch) {
  std::vector<Step> sequence;
  for (const Branch* b = &branch; b != nullptr; b = b->children.empty() ? nullptr : &b->children.front())
    sequence.push_back(b->step);
  return sequence;
}

// Whether nothing of the branch is left.
bool drop_first_leaf_of(Branch& branch) {
  if (branch.children.empty()) return true;
  if (drop_first_leaf_of(branch.children.front())) branch.children.erase(branch.children.begin());
  return branch.children.empty();
}

}  // namespace

void Tree::drop_first_leaf(Node& node) {
  node.pending.front().run = nullptr;  // it was of that leaf
  if (drop_first_leaf_of(node.pending.front())) node.pending.pop_front();
}

// All branches before the first are explored, so what the call at the end of a leaf does was seen, if what sleeps
// commutes with it (reduction_optimal.cc).
bool Tree::is_first_leaf_explored(const Node& node, const Foresee& foresee) const {
  if (!has_wakeup_trees_ || !node.is_uncertain) return false;
  std::vector<Step> sequence = first_leaf_of(node.pending.front());
  if (is_unknown(sequence.back().operation)) {
    std::vector<Step> before = steps_to(&node);
    before.insert(before.end(), sequence.begin(), sequence.end() - 1);
    if (const Operation* call = foresee(before, sequence.back().actor)) sequence.back().operation = *call;
  }
  return is_vouched_for(node.sleep, state_at(&node), sequence);
}

// The node, or the next above it that has anything left to do.
Node* Tree::drop_finished(Node* node) {
  while (node->pending.empty()) {
    Node* parent = node->parent;
    if (parent == nullptr) {
      root_ = nullptr;
      return nullptr;
    }
    if (node->started > 0) note_done(*parent, *node);
    parent->open = nullptr;
    node = parent;
  }
  return node;
}

void Tree::prune(const Foresee& foresee) {
  for (Node* node = drop_finished(path_.back()); node != nullptr; node = drop_finished(node)) {
    lowest_ = node;
    if (!is_first_leaf_explored(*node, foresee)) return;
    drop_first_leaf(*node);
  }
}

}  // namespace crashcut::scheduler
