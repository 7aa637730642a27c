// Gate: system calls of a runner, in which the program's threads are scheduled.
#pragma once

#include <cstdint>

#include "inject/gate.h"

namespace crashcut::scheduler::runtime {

using inject::kernel;

// The program's process, as it sees it: the same in every execution. A thread's number is added to it.
inline constexpr long kProgramPid = 32'000;

// Whether the kernel was asked for anything that putting the memory back would not undo.
extern bool g_is_spent;
// What to say of a call that is refused: a library of OpenMP's made it where the program said no such thing.
const char* name_openmp(const char* call, const void* pc);

}  // namespace crashcut::scheduler::runtime
