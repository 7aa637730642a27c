// TreeSketch: what a search has still to do, by its actors alone: enough to go on later, since a program does the same
// again under the same schedule.
#pragma once

#include <vector>

#include "scheduler/operation.h"

namespace crashcut::scheduler {

struct BranchSketch {
  ActorId actor{};
  std::vector<BranchSketch> children;
  bool operator==(const BranchSketch&) const = default;
};

// An open node that has anything to tell.
struct NodeSketch {
  std::uint32_t depth = 0;
  std::uint32_t preemptions = 0;
  std::uint64_t started = 0;
  std::vector<ActorId> sleep;
  std::vector<BranchSketch> pending;
  bool operator==(const NodeSketch&) const = default;
};

struct TreeSketch {
  std::vector<ActorId> path;      // to the lowest open node
  std::vector<NodeSketch> nodes;  // on it
  bool operator==(const TreeSketch&) const = default;
};

}  // namespace crashcut::scheduler
