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

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* You write this function. crashcut finds it by its name, so it must not be static or stripped. */
void crashcut_recover(void) __attribute__((used, visibility("default")));

/* You may write this one, for `crashcut cxl`. It runs once, before the machines start; what it leaves in memory of
 * crashcut_cxl() is how that memory begins. */
void crashcut_setup(void) __attribute__((used, visibility("default")));

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
#define CRASHCUT_OP_MACHINE 5L
#define CRASHCUT_OP_MACHINES 6L
#define CRASHCUT_OP_CXL 7L
#define CRASHCUT_OP_WAIT_MACHINE 8L
#define CRASHCUT_OP_RESTART_MACHINE 9L
#define CRASHCUT_OP_OWNER_DIED 10L
#define CRASHCUT_OP_PMEM 11L

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

/* Without crashcut: zeroed memory on a cache line's boundary; the same name gives the same memory within one source
 * file. */
struct crashcut_region {
  struct crashcut_region* next;
  char* name;
  void* at;
};
static CRASHCUT_UNUSED void* crashcut_plain_region(struct crashcut_region** first, const char* name, size_t bytes) {
  struct crashcut_region* r;
  for (r = *first; r != NULL; r = r->next) {
    if (strcmp(r->name, name) == 0) return r->at;
  }
  r = (struct crashcut_region*)calloc(1, sizeof *r + strlen(name) + 1 + 64 + bytes);
  if (r == NULL) return NULL;
  r->name = (char*)(r + 1);
  memcpy(r->name, name, strlen(name) + 1);
  r->at = (void*)(((unsigned long)(r->name + strlen(name) + 1) + 63) / 64 * 64);
  r->next = *first;
  *first = r;
  return r->at;
}

/* Under `crashcut pmem`: persistent memory of this name, all zero at first, on a cache line's boundary. It has the same
 * address every time it is asked for, after a crash too. Null where there is no memory. */
static CRASHCUT_UNUSED void* crashcut_pmem(const char* name, size_t bytes) {
  static struct crashcut_region* regions;
  const long at = syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_PMEM, name, (long)strlen(name), (long)bytes);
  return at != -1 ? (void*)at : crashcut_plain_region(&regions, name, bytes);
}

/* A persistent pointer of this name, null at first: where a structure in persistent memory is found again. */
static CRASHCUT_UNUSED void** crashcut_root(const char* name) { return (void**)crashcut_pmem(name, sizeof(void*)); }

/* Machines that share memory, under `crashcut cxl`. Without it there is one machine, whose number is 0. */

/* The number of the machine that this program runs on, and how many machines there are. */
static CRASHCUT_UNUSED int crashcut_machine(void) {
  const long number = syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_MACHINE);
  return number < 0 ? 0 : (int)number;
}
static CRASHCUT_UNUSED int crashcut_machines(void) {
  const long count = syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_MACHINES);
  return count < 0 ? 1 : (int)count;
}

/* The shared memory of that name, at one address on all machines. It begins with zeroes, or as crashcut_setup() left
 * it. Null if there is no room. */
static CRASHCUT_UNUSED void* crashcut_cxl(const char* name, size_t bytes) {
  static struct crashcut_region* regions;
  const long at = syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_CXL, name, bytes);
  return at != -1 ? (void*)at : crashcut_plain_region(&regions, name, bytes);
}

/* Waits until the machine has ended (0) or failed (1). -1 if there is no such machine. */
static CRASHCUT_UNUSED int crashcut_wait_machine(int machine) {
  return (int)syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_WAIT_MACHINE, (long)machine);
}

/* Starts the program of a machine again, with nothing of its own memory. -1 if the machine has not ended or failed, or
 * if there is no such machine. */
static CRASHCUT_UNUSED int crashcut_restart_machine(int machine) {
  return (int)syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_RESTART_MACHINE, (long)machine);
}

/* Whether the calling thread holds this pthread_mutex_t and got it since its owner's machine failed. Robust mutexes say
 * that by EOWNERDEAD, too. */
static CRASHCUT_UNUSED int crashcut_owner_died(const void* mutex) {
  return syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_OWNER_DIED, mutex) == 1;
}

#endif
