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

}  // namespace crashcut::tests
