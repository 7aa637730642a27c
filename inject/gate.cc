#include "inject/gate.h"

#include <sys/prctl.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

// The hidden visibility keeps calls direct: no PLT, no lazy binding in a signal handler.
asm(R"(
  .pushsection crashcut_gate, "ax", @progbits
  .balign 64
  .globl crashcut_syscall, crashcut_forward
  .globl crashcut_forward_thread, crashcut_restorer, crashcut_sigreturn, crashcut_call_on_stack
  .hidden crashcut_syscall, crashcut_forward
  .hidden crashcut_forward_thread, crashcut_restorer, crashcut_sigreturn, crashcut_call_on_stack
  .type crashcut_syscall, @function
crashcut_syscall:
  .cfi_startproc
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  movq %rcx, %rdx
  movq %r8, %r10
  movq %r9, %r8
  movq 8(%rsp), %r9
  syscall
  ret
  .cfi_endproc

  .type crashcut_forward, @function
crashcut_forward:
  .cfi_startproc
  .cfi_escape 0x0f, 3, 0x77, 8, 0x06   # the caller's stack pointer is ForwardFrame::stack_pointer
  .cfi_escape 0x10, 16, 2, 0x77, 0     # and its address is ForwardFrame::return_address
  syscall
  popq %rcx                            # the system call clobbers it anyway
  popq %rsp
  jmp *%rcx
  .cfi_endproc

  .type crashcut_forward_thread, @function
crashcut_forward_thread:
  .cfi_startproc
  .cfi_escape 0x0f, 3, 0x77, 8, 0x06   # the caller's stack pointer is ForwardFrame::stack_pointer
  .cfi_escape 0x10, 16, 2, 0x77, 0     # and its address is ForwardFrame::return_address
  syscall
  testq %rax, %rax
  jz 1f
  popq %rcx                            # the system call clobbers it anyway
  popq %rsp
  jmp *%rcx
  .cfi_endproc
1:
  pushq %rdi
  pushq %rsi
  pushq %rdx
  pushq %r8
  pushq %r9
  pushq %r10
  movl $157, %eax                      # prctl
  movl $59, %edi                       # PR_SET_SYSCALL_USER_DISPATCH
  movl $1, %esi                        # on
  leaq __start_crashcut_gate(%rip), %rdx
  leaq __stop_crashcut_gate(%rip), %r10
  subq %rdx, %r10
  xorl %r8d, %r8d
  syscall
  popq %r10
  popq %r9
  popq %r8
  popq %rdx
  popq %rsi
  popq %rdi
  xorl %eax, %eax
  ret

  .type crashcut_restorer, @function
  nop
crashcut_restorer:  # these very bytes: unwinders and debuggers know a signal's frame by them
  movq $15, %rax
  syscall

  .type crashcut_sigreturn, @function
crashcut_sigreturn:
  movq %rdi, %rsp
  movl $15, %eax
  syscall
  hlt

  .type crashcut_call_on_stack, @function
crashcut_call_on_stack:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  movq %rdx, %rsp
  movq %rdi, %rax
  movq %rsi, %rdi
  call *%rax
  movq %rbp, %rsp
  popq %rbp
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .popsection
)");

namespace crashcut::inject {

long set_dispatch(bool on) {
  if (!on) return kernel(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0);
  return kernel(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, 1, __start_crashcut_gate,
                __stop_crashcut_gate - __start_crashcut_gate, 0);
}

}  // namespace crashcut::inject
