/* crashcut.h: what a program can tell crashcut, and ask it. Header-only, C89 and C++.
 *
 * Write an ordinary program: main() does the work, crashcut_recover() is what runs after the power came back.
 *   crashcut run prog.c
 * runs main() once and crashcut_recover() on every state that a crash can have left. An assert, an abort, a
 * signal, a non-zero exit or an uncaught exception in crashcut_recover() is a violation.
 *
 * Without crashcut the calls below do nothing: the system call they make is one that no kernel has.
 */
#ifndef CRASHCUT_H
#define CRASHCUT_H

#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* You write this function. crashcut finds it by its name, so it must not be static or stripped. */
void crashcut_recover(void) __attribute__((used, visibility("default")));

/* Not declared by unistd.h in strict C modes. */
extern long syscall(long number, ...);

#ifdef __cplusplus
}
#endif

#define CRASHCUT_SYSCALL_NUMBER 0x63726173L /* "cras" */
#define CRASHCUT_OP_BARRIER 1L
#define CRASHCUT_OP_MARK 2L
#define CRASHCUT_OP_REACHED 3L
#define CRASHCUT_OP_ASSUME 4L

#if defined(__GNUC__)
#define CRASHCUT_UNUSED __attribute__((unused))
#else
#define CRASHCUT_UNUSED
#endif

/* In main(): everything so far is durable and is the starting state. No crash comes before it. */
static CRASHCUT_UNUSED void crashcut_barrier(void) { (void)syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_BARRIER); }

/* In main(): the program made a promise here ("saved!"). After a crash the mark counts as reached only if everything
 * that was durable at the mark is still there. */
static CRASHCUT_UNUSED void crashcut_mark(const char* text) {
  (void)syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_MARK, text, (long)strlen(text));
}

/* In crashcut_recover(): 1 if main() had passed this mark when the power failed, else 0. 0 without crashcut. */
static CRASHCUT_UNUSED int crashcut_reached(const char* text) {
  return syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_REACHED, text, (long)strlen(text)) == 1;
}

/* In crashcut_recover(): if the condition does not hold, this recovery is dropped and does not count.
 * In a thread, under `crashcut threads`: if the condition does not hold, this schedule is dropped. So "wait until" can
 * be written without a loop. Failures of other threads in the same schedule are still found. */
static CRASHCUT_UNUSED void crashcut_assume(int condition) {
  if (!condition) (void)syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_ASSUME);
}

#endif
