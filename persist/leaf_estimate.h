// LeafEstimate: how large a tree of choices is, as far as its leaves tell, which come in any order.
//
// The estimate is ChoiceTree's (choices.h): what is not explored yet is taken to be like its explored siblings. This
// one
//   is for a tree that several processes explore, and that nobody has as a whole.
// Cost: a leaf costs its depth. Of subtrees that are complete only the weight is kept.
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
  // In a path: a run ended here, and what follows is of a run that hangs below it.
  static constexpr std::uint32_t kBelow = 0xffffffff;

  // A run by its answers. `counts` says how many answers the last choices of the path had, one for each. All runs that
  // hang below it have come before.
  void add(std::span<const std::uint32_t> path, std::span<const std::uint32_t> counts);

  double done() const { return done_; }  // runs
  // All runs: those so far and those to come. With none so far: one.
  Estimate estimate() const;
  // The part of the tree that is explored, by the likely estimate. 0 only where there was no run.
  double fraction() const;

 private:
  struct Node;
  struct Child {
    std::uint32_t answer;
    std::unique_ptr<Node> node;
  };
  // A point of choice, or a run whose record has not come yet.
  struct Node {
    std::uint32_t count = 0;           // of answers; 0: not known
    std::uint32_t complete = 0;        // of them
    double done = 0;                   // the weight of the complete ones, of all,
    double smallest = 0, largest = 0;  // and of one
    double first = 0;                  // the weight of the first one
    std::vector<bool> is_ended;        // by answer
    std::vector<Child> open;
    std::unique_ptr<Node> below;  // what hangs below the run

    bool is_complete() const { return count != 0 && complete == count; }
  };
  void end_child(Node& node, std::uint32_t answer, double weight);
  Estimate estimate_of(const Node& node) const;

  BranchSizes sizes_;
  Node root_;
  bool is_root_a_run_ = false;  // there is no choice at all
  double done_ = 0;
};

}  // namespace crashcut::persist
