// Interpose: functions of libc, and of libtsan, that the library stands in for while the program's threads are
// scheduled.
//
// An exported name is a jump through a slot of a table. Where threads are scheduled, the slot leads to our function.
// Where they are not, it leads to the function that the program would have called without us, so that all of ours costs
// a program of `crashcut run` one jump. (But for libtsan's where accesses are trapped: kCallbacksVariable.) The slots
// are filled by the first call of any of them: the loader allocates memory before our constructor runs.
#pragma once

namespace crashcut::inject {

// Whether crashcut asked for threads to be scheduled in this process.
bool schedules_threads();
// Fills the table, unless it is filled.
extern "C" void crashcut_choose_functions();
// The function that the program would have called without us; null where there is none.
void* find_real(const char* name);
// What syscall() leads to where threads are not scheduled (own_calls.cc). `real` is libc's.
void* direct_syscall(void* real);

}  // namespace crashcut::inject

// Defines the exported name and its slot, which is a crashcut::inject::Interposed. `before` is what every call of the
// name begins with, `first` what our function begins with: instructions that the compiler must not see.
#define CRASHCUT_INTERPOSE_AFTER(name, before, first)                                           \
  asm(".text\n.globl " #name "\n.type " #name ", @function\n" #name ": .cfi_startproc\n" before \
      "jmp *crashcut_slot_" #name                                                               \
      "(%rip)\n"                                                                                \
      "1: leaq crashcut_slot_" #name                                                            \
      "(%rip), %r11\n  jmp crashcut_first_call\n"                                               \
      "2: " first "  jmp crashcut_impl_" #name                                                  \
      "\n"                                                                                      \
      ".cfi_endproc\n.size " #name ", . - " #name                                               \
      "\n"                                                                                      \
      ".pushsection .rodata.str1.1, \"aMS\", @progbits, 1\n3: .asciz \"" #name                  \
      "\"\n.popsection\n"                                                                       \
      ".pushsection crashcut_interposed, \"aw\", @progbits\n.balign 8\ncrashcut_slot_" #name    \
      ": .quad 1b, 2b, 3b\n.popsection\n")
#define CRASHCUT_INTERPOSE(name, first) CRASHCUT_INTERPOSE_AFTER(name, "", first)
// EXPORT(int, pthread_join)(pthread_t handle, void** result) { ... }
#define EXPORT(result, name)    \
  CRASHCUT_INTERPOSE(name, ""); \
  extern "C" __attribute__((visibility("hidden"), used)) result crashcut_impl_##name
// Where the call of such a function returns to.
#define CALLER __builtin_return_address(0)
