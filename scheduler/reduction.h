// Reduction: which schedules an execution gives reason to try. One file each; all explore every violation.
//
// Does not keep: the order in which executions come. What they have in common is the tree.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "scheduler/execution.h"
#include "scheduler/tree.h"

namespace crashcut::scheduler {

enum class ReductionName {
  kNone,     // every schedule: the oracle
  kSource,   // source sets and sleep sets
  kOptimal,  // wakeup trees: one execution a class, none in vain
  kOne,      // one schedule, that of the seed: what no thread decides is tried, answers and failures of hosts
};

class Reduction {
 public:
  virtual ~Reduction() = default;
  virtual bool has_sleepers() const { return true; }
  virtual bool has_wakeup_trees() const { return false; }
  // Whether what the first step of a branch does depends on the state before it.
  virtual bool looks_at_states() const { return true; }
  // Adds branches to the nodes of tree.path(), the path of the execution. Returns how many steps it looked at.
  virtual std::uint64_t add_branches(Tree& tree, const Execution& execution) = 0;
  // Of a call on files (Tree::Foresee).
  virtual const Operation* foresee(std::span<const Step>, ActorId) const { return nullptr; }

  // Asked now and then during the work. Once it returns true the work stops, and branches are missing.
  std::function<bool()> is_late = [] { return false; };
  bool was_stopped = false;
  std::uint32_t depth_most = 0;  // steps an actor; 0: no bound
  // A bound of its own left schedules out.
  bool has_left_out = false;
};

// `preemptions_most`: schedules with more switches away from an actor that could go on are left out; none only.
inline constexpr std::uint32_t kNoPreemptionBound = 0xffffffff;
std::unique_ptr<Reduction> make_none(std::uint32_t preemptions_most = kNoPreemptionBound);
std::unique_ptr<Reduction> make_source();
std::unique_ptr<Reduction> make_optimal();
std::unique_ptr<Reduction> make_one();
std::unique_ptr<Reduction> make_reduction(ReductionName name);

}  // namespace crashcut::scheduler
