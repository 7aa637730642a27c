// PosixCore: the programs of posix_model.h on the scheduler's core alone, without processes: each call is the
// operations that the runtime makes of it (scheduler/runtime/calls_*.cc). So thousands of them can be tried.
#pragma once

#include "scheduler/execution.h"
#include "tests/posix_model.h"

namespace crashcut::tests {

class PosixCore : public scheduler::Program {
 public:
  explicit PosixCore(const PosixProgram& program) : program_(&program) {}
  scheduler::Execution run(const scheduler::RunRequest& request) override;

 private:
  const PosixProgram* program_;
};

// The outcome of an execution of it.
std::string core_outcome(const scheduler::Execution& execution);

}  // namespace crashcut::tests
