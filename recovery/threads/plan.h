// ThreadPlan: a plan of which schedules are searched, too; or of several machines.
#pragma once

#include "recovery/plan.h"
#include "scheduler/search.h"

namespace crashcut::recovery {

// A machine of several that take part in an execution (scheduler/runtime/hosts.h).
struct Machine {
  std::string named;  // the executable, or the source it is made from, as typed
  std::string executable;
  std::string id;  // the program's build id, or a checksum
};

// Of the plan: `wants_all` also goes on after an execution that failed, `max_recoveries` is that of all executions,
// `time_limit` that of the whole search.
struct ThreadPlan : Plan {
  scheduler::ReductionName reduction = scheduler::ReductionName::kOptimal;
  bool has_foresight = true;
  std::uint64_t executions_most = 0;  // scheduler::Bounds, as the next two
  std::uint32_t steps_most = 0;
  std::uint32_t preemptions_most = scheduler::kNoPreemptionBound;
  std::uint32_t spurious_most = 0;
  std::uint32_t timeouts_most = 2;
  std::vector<std::pair<scheduler::PrimitiveId, std::int64_t>> policies;
  double step_limit_s = 10;
  bool is_strict_exit = false;  // threads that are left when the process ends are a violation
  bool ignores_result = false;  // what main() returns is not judged
  bool merges_logs = true;      // recoveries that would be those of an earlier execution are not run
  // Empty: the program is no machine. Else each runs its program with the same arguments, `executable` is the first
  // one's, and no recoveries are run. `failing` has a bit for each machine that may fail.
  std::vector<Machine> machines{};
  std::uint32_t failures_most = 0, failing = 0;
};

// "threads", or "cxl" if there are machines.
std::string command_of(const ThreadPlan& plan);

}  // namespace crashcut::recovery
