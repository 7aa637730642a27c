// Crashes: after an execution, the states that a crash can leave of it.
//
// The execution is run again in a process of our own, by its schedule, and its recoveries are explored there as
//   crashcut run does. Not where those of an earlier execution would be the same (log_digest.h).
// Threads: one at a time, by the search's lock.
#pragma once

#include <optional>

#include "recovery/search/check.h"
#include "recovery/threads/joint_program.h"

namespace crashcut::recovery {

// Thrown where an execution that is to be crashed does something else when it is run again.
struct NotRepeatable : scheduler::runtime::ToolError {
  scheduler::Execution expected, found;
};

struct CrashCounts {
  std::uint64_t explored = 0;  // executions whose recoveries were run
  std::uint64_t merged = 0;    // those whose recoveries would be the same as those of one before
};

class Crashes {
 public:
  // Throws ToolError.
  Crashes(const ThreadPlan& plan, scheduler::runtime::NameTable& names, const JointProgram::Setup& setup,
          const search::Hooks& hooks);

  // Whether there is anything to recover: a crashcut_recover().
  bool has_recover() { return program_.session().has_recover(); }
  // Nothing where there is nothing new. Throws ToolError.
  std::optional<search::Found> explore(const scheduler::Execution& execution, std::uint64_t recoveries_most,
                                       double time_most_s);
  const CrashCounts& counts() const { return counts_; }

 private:
  const ThreadPlan& plan_;
  search::Hooks hooks_;
  JointProgram program_;
  SeenLogs seen_;
  CrashCounts counts_;
};

// Runs the schedule again; throws ToolError where the program does something else.
scheduler::Execution run_again(JointProgram& program, const scheduler::Execution& execution);

}  // namespace crashcut::recovery
