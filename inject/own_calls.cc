// Calls of include/crashcut.h, which are calls of libc's syscall() with a number of our own: models do them where they
// are made. The way by SIGSYS costs some microseconds each.
//
// A signal handler of the program could interrupt the model then, and its system calls would be taken for ours. So a
//   program that sets a handler goes the way by SIGSYS, where its signals are blocked meanwhile.
#include <errno.h>

#include "inject/interpose.h"
#include "inject/model.h"

extern "C" {
__attribute__((visibility("hidden"), used)) long (*crashcut_real_syscall)(long, ...) = nullptr;
void crashcut_direct_syscall();  // syscall(): what is not ours goes to libc, without a frame of ours in between
}

asm(R"(
  .text
  .type crashcut_direct_syscall, @function
  .globl crashcut_direct_syscall
  .hidden crashcut_direct_syscall
crashcut_direct_syscall:
  .cfi_startproc
  cmpq $0x63726173, %rdi
  je crashcut_do_own_call
  jmp *crashcut_real_syscall(%rip)
  .cfi_endproc
)");

namespace crashcut::inject {

void* direct_syscall(void* real) {
  crashcut_real_syscall = reinterpret_cast<long (*)(long, ...)>(real);
  return reinterpret_cast<void*>(crashcut_direct_syscall);
}

extern "C" __attribute__((visibility("hidden"), used)) long crashcut_do_own_call(long number, long a, long b, long c,
                                                                                 long d, long e, long f) {
  const bool is_running = g_phase == Phase::kExecuting || g_phase == Phase::kRecovering;
  if (!is_running || t_is_own_code || has_own_handlers()) return crashcut_real_syscall(number, a, b, c, d, e, f);
  Call call{number, {a, b, c, d, e, f}, __builtin_return_address(0)};
  if (!do_without_signal(call)) return crashcut_real_syscall(number, a, b, c, d, e, f);
  if (call.result >= 0 || call.result < -4095) return call.result;
  errno = static_cast<int>(-call.result);
  return -1;
}

}  // namespace crashcut::inject
