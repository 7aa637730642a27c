// Models: this folder's functions for the library's table of models (inject/model.h).
#pragma once

#include "inject/model.h"

namespace crashcut::scheduler::runtime {

extern const inject::Model kThreadModel, kMachineModel;

// --- runner.cc: finds the memory that is shared with the command.
void start_threads(char** envp);
// Ends all executions with a sentence.
void end_with(std::string_view sentence, bool is_users_fault);

}  // namespace crashcut::scheduler::runtime
