// LeafEstimate: how large a tree of choices is, estimated from its leaves, which come in any order.
//
// It estimates as ChoiceTree does (choices.h): an unexplored branch is like its explored siblings, or like branches of
//   the same answer elsewhere. It is for a tree that several processes explore, so that none of them has all of it.
// Cost: a leaf costs its depth. Only the weight of a complete subtree is kept.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "persist/branch_sizes.h"
#include "persist/estimate.h"

namespace crashcut::persist {

class LeafEstimate {
 public:
  // In a path: a run ended here, and the answers that follow are those of a run that hangs below it.
  static constexpr std::uint32_t kBelow = 0xffffffff;

  // Adds a run, given by its answers. `counts` says how many answers the last choices of the path had, one number for
  // each choice. All runs that hang below this run were added before.
  void add(std::span<const std::uint32_t> path, std::span<const std::uint32_t> counts);

  double done() const { return done_; }  // runs
  // All runs: those so far and those to come. With none so far: one.
  Estimate estimate() const;
  // The part of the tree that is explored, by the likely estimate. 0 only before the first run.
  double fraction() const;

 private:
  struct Node;
  struct Child {
    std::uint32_t answer;
    std::unique_ptr<Node> node;
  };
  // A point of choice, or a run that is not added yet although runs below it are.
  struct Node {
    std::uint32_t count = 0;     // how many answers the choice has; 0 if that is not known
    std::uint32_t complete = 0;  // how many of its answers are explored
    double done = 0;             // their weight
    double first = 0;            // the weight of the first one that was explored
    std::vector<bool> is_ended;  // by answer: is it explored?
    std::vector<Child> open;
    std::unique_ptr<Node> below;  // what hangs below the run

    bool is_complete() const { return count != 0 && complete == count; }
  };
  static Node* find_child(const Node& node, std::uint32_t answer);
  static Node& child_of(Node& node, std::uint32_t answer);
  void end_child(Node& node, std::uint32_t answer, double weight);
  double estimate_of(const Node& node) const;

  BranchSizes sizes_;
  Node root_;
  bool is_root_a_run_ = false;  // the tree has no choice at all
  double done_ = 0;
  std::vector<Node*> parents_;  // scratch of add()
};

}  // namespace crashcut::persist
