// Gate: system calls of a runner, in which the program's threads are scheduled.
#pragma once

#include <cstdint>

#include "inject/gate.h"

namespace crashcut::scheduler::runtime {

using inject::kernel;

// The process id that the program sees: the same in every execution. A thread's id is this plus the thread's number.
inline constexpr long kProgramPid = 32'000;

// Whether the kernel did anything in this execution that restoring the memory does not undo.
extern bool g_is_spent;
// The name of a refused call for the message: the call may have been made by an OpenMP library.
const char* name_openmp(const char* call, const void* pc);

}  // namespace crashcut::scheduler::runtime
