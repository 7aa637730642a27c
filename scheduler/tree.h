// Tree: the schedules that a search has begun and those it has still to try.
//
// A node is a prefix of executions. Its pending branches are wakeup trees: steps to take from there, in order, that
//   lead to a class not seen yet. Branches that were explored sleep in those after them: what commutes with such a
//   step was explored there. Exploring is depth first: a branch is taken when all below those before it is done.
// Running ahead: what a pending branch will ask for is known as soon as it is there: its first leaf stays the first,
//   and the branches before it stay before it. So others may run it early, and the search is the same. Of an uncertain
//   node (below) branches may be dropped: then what was run early is not asked for, or not under the same sleepers.
// Invariants: (1) a node without pending branches and an open child is gone; (2) branches are only added behind
//   others. Threads: one at a time, by the caller's lock.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "persist/estimate.h"
#include "persist/progress.h"
#include "scheduler/execution.h"
#include "scheduler/sketch.h"

namespace crashcut::scheduler {

// A run that was asked for.
struct Run {
  enum class Stage { kWaiting, kRunning, kDone } stage = Stage::kWaiting;
  RunRequest request;
  Execution execution;
};

// A wakeup tree: a step, and what to do after it. Without children: anything.
struct Branch {
  Step step;
  std::vector<Branch> children;
  std::shared_ptr<Run> run = nullptr;  // of its first leaf, where somebody began it early
  bool is_preemption = false;
};

// The branches of a node that were explored to the end, for the estimate.
struct Done : Finished {
  double first = 0, smallest = 0, largest = 0;  // leaves of one of them

  void add(std::uint64_t leaves_of_branch);
  // Of a search that is resumed: all are taken to be alike.
  static Done of(const Finished& finished);
};

struct Node {
  Node* parent = nullptr;
  Step step{};  // that led here
  std::uint32_t depth = 0;
  std::uint32_t preemptions = 0;
  std::vector<Step> sleep;  // at arrival, and the first step of every branch started since
  std::list<Branch> pending;
  std::unique_ptr<Node> open;  // the branch that is being explored
  std::uint64_t started = 0;   // branches
  // What a step in its wakeup trees would do was not known: what looked like a new class may turn out to be none.
  bool is_uncertain = false;
  bool has_company = false;  // two actors exist here that have steps left: there may be another branch
  std::array<Done, 2> done;  // of these; those that cost a preemption apart
};

class Tree {
 public:
  // Without sleepers every branch is explored in full, whatever commutes. With wakeup trees, skip a branch if some
  // sleeping actor stays asleep in every leaf below it. With neither, and where no signal can interrupt the first step
  // of a branch, the tree need not look at the states of the program (Reduction::looks_at_states).
  Tree(bool has_sleepers, bool has_wakeup_trees, bool looks_at_states = true)
      : has_sleepers_(has_sleepers),
        has_wakeup_trees_(has_wakeup_trees),
        looks_at_states_(looks_at_states),
        root_(std::make_unique<Node>()) {}

  struct Task {
    Node* leaf;
    std::shared_ptr<Run> run;
  };
  // The next branch, or the first run of all; none where all is explored.
  std::optional<Task> take();
  // The branch that was taken last was not explored after all: it is pending again.
  void put_back();
  // A run that a pending branch will need and nobody has begun; null where there is none. Where what a call would do is
  // not known it may turn out that it is not needed.
  std::shared_ptr<Run> take_ahead(bool may_be_in_vain);
  // Adds the nodes of an execution that went on from `leaf`, one a step: path()[k] is the node before step k.
  enum class Extended {
    kYes,
    kDiverged,  // it did other things on the way to the leaf than before
    kInVain,    // a step on the way turned out to do what was explored elsewhere: the leaf is dropped
  };
  Extended extend(Node* leaf, const Execution& execution);
  // After extend(): not all branches that the execution gives reason for were added. Its leaf is pending again, as if
  // it had not been run. The branches that were added above the leaf stay: they are found again, and inserted once.
  void take_back(Node* leaf);
  const std::vector<Node*>& path() const { return path_; }
  // After kDiverged: the first step that was another one, from 0, and what it was before.
  struct Divergence {
    std::size_t step;
    Step expected;
  };
  const Divergence& divergence() const { return divergence_; }
  // What the actor's call would do after these steps; null where that is not known.
  using Foresee = std::function<const Operation*(std::span<const Step> before, ActorId actor)>;
  // Drops what turned out to be explored by now, and the nodes that have nothing left to do.
  void prune(const Foresee& foresee);
  // The state before what follows `node`.
  State state_at(const Node* node) const;
  bool is_explored() const { return root_ == nullptr; }
  // Estimated part that is done. (estimate.cc)
  persist::Fraction explored_fraction() const;
  const std::vector<ObjectStart>& objects() const { return objects_; }
  // What is left to do; and to go on with that, in a tree that has not begun: false where the program does not do what
  // it did. (sketch.cc)
  TreeSketch sketch() const;
  bool restore(const TreeSketch& sketch, Program& program, std::uint32_t depth_most);

 private:
  Node* add_child(Node* node, const Step& step, const State& after);
  static std::vector<Step> steps_to(const Node* node);
  bool is_leaf_in_vain(const State& at_branch) const;
  static void drop_first_leaf(Node& node);
  bool is_first_leaf_explored(const Node& node, const Foresee& foresee) const;
  Node* drop_finished(Node* node);
  void settle_sleep(Node& parent, Node& child, const Node* next, const State& after) const;
  RunRequest request_of(const Node& node, const std::list<Branch>::iterator branch) const;
  void merge_objects(const Execution& execution);
  void note_done(Node& parent, const Node& child);
  persist::Estimate estimate() const;
  persist::Estimate estimate_pending(const Node& node, const persist::Estimate* open) const;
  persist::Estimate estimate_unknown(const Node& node, const persist::Estimate& open) const;

  bool has_sleepers_, has_wakeup_trees_, looks_at_states_;
  std::unique_ptr<Node> root_;
  std::vector<Node*> path_;
  Divergence divergence_{};
  std::vector<ObjectStart> objects_;
  Node* lowest_ = nullptr;          // of the open nodes
  std::uint32_t branch_depth_ = 0;  // where the branch that was taken last begins
  bool is_begun_ = false;
  std::map<std::uint32_t, Finished> done_by_preemptions_;
  struct Branching {
    std::uint64_t nodes = 0, branches = 0;
  };
  std::vector<Branching> branching_;  // of the nodes with company that are finished, by their depth
  Branching all_branching_;           // of all of them together
};

}  // namespace crashcut::scheduler
