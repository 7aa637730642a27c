// Gate: system calls of the runtime itself. Everything else in a runner raises SIGSYS (syscall user dispatch), so
// that what a program asks of the kernel is known.
#pragma once

#include <sys/syscall.h>

#include <cstdint>

namespace crashcut::scheduler::runtime {

// The program's process, as it sees it: the same in every execution. A thread's number is added to it.
inline constexpr long kProgramPid = 32'000;

extern "C" {
// The kernel's result: a negative errno on failure.
long crashcut_threads_syscall(long number, long a, long b, long c, long d, long e, long f);
// The section that holds the gate, alone or with that of another runtime; the linker makes them.
extern const char __start_crashcut_gate[] __attribute__((visibility("hidden")));
extern const char __stop_crashcut_gate[] __attribute__((visibility("hidden")));
}

template <class... A>
inline long kernel(long number, A... arguments) {
  long a[6] = {};
  int i = 0;
  ((a[i++] = (long)arguments), ...);
  return crashcut_threads_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// Turns dispatch on; false where the kernel has none.
bool install_dispatch();
void set_dispatch(bool on);
// Whether the kernel was asked for anything that putting the memory back would not undo.
extern bool g_is_spent;
// What to say of a call that is refused: a library of OpenMP's made it where the program said no such thing.
const char* name_openmp(const char* call, const void* pc);
// Set while the runtime itself calls libc, so that its calls are not the program's.
extern bool g_is_own_call;

}  // namespace crashcut::scheduler::runtime
