// Gate: the one stretch of code whose system calls reach the kernel while syscall user dispatch is on.
//
// A system call from anywhere else in the process, libc included, raises SIGSYS instead. So the runtime never calls a
// libc function that may make a system call; it calls these. Threads: all of it is reentrant.
#pragma once

#include <sys/syscall.h>

#include <cstdint>

namespace crashcut::inject {

extern "C" {
// The kernel's result: a negative errno on failure.
long crashcut_syscall(long number, long a, long b, long c, long d, long e, long f);
// Where a forwarded call of the program runs, with its own registers: `syscall`, then back to the program.
// rsp points to a ForwardFrame. Signals, restarts and cancellation work as they would without us.
void crashcut_forward();
// The same for a new thread: the child turns dispatch on for itself and returns to the address that lies on
// top of its own stack.
void crashcut_forward_thread();
void crashcut_restorer();
// Returns from the program's own signal handler: rt_sigreturn with the program's stack pointer.
[[noreturn]] void crashcut_sigreturn(std::uint64_t stack_pointer);
// Calls function(argument) on another stack.
void crashcut_call_on_stack(void (*function)(void*), void* argument, void* stack_top);
// The section that holds the gate; the linker makes them.
extern const char __start_crashcut_gate[] __attribute__((visibility("hidden")));
extern const char __stop_crashcut_gate[] __attribute__((visibility("hidden")));
}

struct ForwardFrame {
  std::uint64_t return_address;
  std::uint64_t stack_pointer;
};

template <class... A>
inline long kernel(long number, A... arguments) {
  long a[6] = {};
  int i = 0;
  ((a[i++] = (long)arguments), ...);
  return crashcut_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// Turns syscall user dispatch on or off for the calling thread. Returns 0 or a negative errno.
long set_dispatch(bool on);

}  // namespace crashcut::inject
