// Search: runs a program under every schedule that a reduction asks for, within bounds, on several workers. What is
// found, and in which order, does not depend on how many there are.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "persist/deadline.h"
#include "persist/progress.h"
#include "scheduler/execution.h"
#include "scheduler/reduction.h"
#include "scheduler/sketch.h"

namespace crashcut::scheduler {

struct Bounds {
  std::uint64_t executions_most = 0;  // 0: none, as for the others
  double time_most_s = 0;
  std::uint32_t depth_most = 0;  // steps an actor
  std::uint32_t preemptions_most = kNoPreemptionBound;
  std::uint64_t work_most = 0;  // steps that were run or looked at: a measure that is the same on every machine
};

using persist::Bound;
using persist::Progress;

// What was done. Searches that follow one another add up.
struct SearchCounts {
  std::uint64_t executions = 0;      // completed, deadlocked and failed ones among them
  std::uint64_t asleep = 0;          // ended asleep: run in vain
  std::uint64_t foreseen = 0;        // not run: known to be of a class that was
  std::uint64_t foreseen_steps = 0;  // that foresight looked at, whether the execution had to be run or not
  std::uint64_t transitions = 0;     // steps of all executions
  std::uint64_t new_steps = 0;       // of these, beyond what led to the branch
  std::uint64_t work = 0;            // Bounds::work_most
  double seconds = 0;

  SearchCounts& operator+=(const SearchCounts& other);
};

struct SearchResult : SearchCounts {
  bool gave_up_foresight = false;  // it had cost more than it saved
  Bound bound = Bound::kNone;      // kEnoughFound: on_execution said so
  persist::Fraction fraction = 1;
  bool is_too_long = false;  // an execution was (Ending::kTooLong): the search ended there
  // Of a program that may not come to an end (deepening.h): every schedule in which no actor takes more steps than this
  // was tried, 0: none; and some in which actors take up to so many.
  std::uint32_t depth_whole = 0, depth_tried = 0;
  bool diverged = false;         // a schedule could not be repeated; nothing is claimed
  Execution divergence;          // what came instead
  std::size_t diverged_at = 0;   // the step, from 0
  std::optional<Step> expected;  // that it was to be
  TreeSketch rest;               // what bounds left out; where a bound was hit, what is left to do
};

struct SearchSetup {
  ReductionName reduction = ReductionName::kOptimal;
  bool has_foresight = true;  // independence may look at the state (foresight.h)
  Bounds bounds;
  // RunRequest; neither with a bound on preemptions. Every seed leads to the same classes of executions, in another
  // order: which of them a search sees that does not end.
  std::uint32_t turn_most = 0;
  std::uint64_t seed = 0;
  // Called for each execution, one at a time; false stops the search.
  std::function<bool(const Execution&)> on_execution;
  std::function<void(const Progress&)> on_progress;
  double progress_every_s = 0.2;
  std::chrono::milliseconds others_begin_after{0};  // workers but the first
  const std::atomic<bool>* stop = nullptr;
  const TreeSketch* rest = nullptr;  // of an earlier search that was stopped: go on with it
};

// What was left out of a search that has nothing more to do.
Bound bound_of(const TreeSketch& rest);

// One worker a program; all run the same one. Ends at an execution that is too long; deepening.h goes on.
SearchResult search(const std::vector<Program*>& workers, const SearchSetup& setup);

}  // namespace crashcut::scheduler
