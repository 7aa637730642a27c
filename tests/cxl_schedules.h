// Runs small programs of several machines on cxl/ and the scheduler: every class of schedules, failures and answers.
#pragma once

#include "scheduler/search.h"
#include "tests/cxl_program.h"

namespace crashcut::tests {

struct CxlFound {
  std::set<CxlOutcome> outcomes;
  std::set<std::string> classes;
  std::uint64_t executions = 0, asleep = 0;
  bool is_whole = false;
};
CxlFound explore_cxl(const CxlProgram& program, scheduler::ReductionName reduction, std::uint64_t executions_most);

// One schedule, that of the seed: what a thread does next does not depend on what others did. All failures along it, at
// the points of cxl/failure_points.h or before every step, and all answers.
struct CxlFailures {
  std::set<CxlOutcome> outcomes;
  std::uint64_t executions = 0;
  std::uint64_t points_most = 0;  // of one execution
  bool is_whole = true;
};
CxlFailures explore_cxl_failures(const CxlProgram& program, std::uint64_t seed, bool before_every_step,
                                 std::uint64_t executions_most);

}  // namespace crashcut::tests
