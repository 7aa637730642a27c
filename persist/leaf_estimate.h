// LeafEstimate: how large a tree of choices is, estimated from its leaves, which come in any order.
//
// It estimates as ChoiceTree does (choices.h): an unexplored branch is like its explored siblings, or like branches of
//   the same answer elsewhere. It is for a tree that several processes explore, so that none of them has all of it.
// Cost: a leaf costs a comparison of its path with that of the leaf before it, and what the two do not share. So it is
//   for some processes that explore side by side, and not for many. Only the weight of a complete subtree is kept.
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

    Node() = default;
    ~Node();
    bool is_complete() const { return count != 0 && complete == count; }
  };
  // Where a run was added. The next run of the same process is nearby.
  struct Cursor {
    std::vector<std::uint32_t> path;  // of the run; shorter if nodes are gone
    std::vector<Node*> nodes;         // node i is where answer i of the path was given; at least the root
    std::size_t counted_from = 0;     // the counts of the nodes from here on are known
  };
  static constexpr std::size_t kCursorsMost = 4;
  static constexpr std::size_t kNearby = 64;  // choices

  static Node* find_child(const Node& node, std::uint32_t answer);
  static Node& child_of(Node& node, std::uint32_t answer);
  static std::size_t shared_length(const Cursor& cursor, std::span<const std::uint32_t> path);
  Cursor& cursor_near(std::span<const std::uint32_t> path);
  static void set_counts(Cursor& cursor, std::size_t shared, std::span<const std::uint32_t> counts);
  void end_child(Node& node, std::size_t depth, std::uint32_t answer, double weight);
  // Of what is below the node, where `open` has that of each child that is open, in order.
  double estimate_of(const Node& node, std::span<const double> open) const;
  double estimate_below(const Node& node) const;

  BranchSizes sizes_;
  std::unique_ptr<Node> root_ = std::make_unique<Node>();
  bool is_root_a_run_ = false;  // the tree has no choice at all
  double done_ = 0;
  std::vector<Cursor> cursors_;  // the last one was used last
};

}  // namespace crashcut::persist
