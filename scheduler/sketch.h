// TreeSketch: what a search has still to do, by its actors alone: enough to go on later, since a program does the same
// again under the same schedule.
#pragma once

#include <array>
#include <vector>

#include "scheduler/operation.h"

namespace crashcut::scheduler {

// Branches that were explored to the end, for the estimate.
struct Finished {
  std::uint64_t branches = 0;
  std::uint64_t leaves = 0;
  bool operator==(const Finished&) const = default;
};

struct BranchSketch {
  ActorId actor{};
  bool is_preemption = false;
  std::vector<BranchSketch> children;
  bool operator==(const BranchSketch&) const = default;
};

// An open node that has anything to tell.
struct NodeSketch {
  std::uint32_t depth = 0;
  std::uint32_t preemptions = 0;
  std::uint64_t started = 0;
  std::array<Finished, 2> done;
  std::vector<ActorId> sleep;
  std::vector<BranchSketch> pending;
  bool operator==(const NodeSketch&) const = default;
};

struct TreeSketch {
  std::vector<ActorId> path;      // to the lowest open node
  std::vector<NodeSketch> nodes;  // on it
  bool is_unbegun = false;        // the search was stopped in its very first execution: the whole tree is left
  // What bounds have left out so far, whatever is still to come.
  bool hit_depth = false, hit_timeouts = false, hit_preemptions = false;
  // Spurious wake-ups that were not tried: how many waits for condition variables one execution had, at most, for which
  // there was none. 0: all waits had theirs, or there were no waits. It is no bound (a wait in a loop that looks again
  // cannot tell), but a verdict should name it.
  std::uint64_t unstirred_waits = 0;
  // Of a program that may not come to an end (deepening.h): the bound on an actor's steps, 0: none; and that of the
  // last search that was whole.
  std::uint32_t depth = 0, depth_whole = 0;
  bool operator==(const TreeSketch&) const = default;
};

}  // namespace crashcut::scheduler
