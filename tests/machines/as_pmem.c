/* A program of workloads/pmem/ (-DPROGRAM) on two machines: machine 0 runs its main(), machine 1 waits until machine 0
 * has ended or failed, and runs its crashcut_recover(). The persistent memory is memory that the machines share. A mark
 * is a semaphore, which survives; it is also a fence, which a mark is not. With -DRESTARTS machine 1 restarts machine
 * 0, which then runs crashcut_recover() itself. */
#include <semaphore.h>
#include <stdio.h>

#include "crashcut.h"

enum { kMarks = 64, kRegions = 16 };

static sem_t* semaphores(void) { return crashcut_cxl("marks", (kMarks + 2) * sizeof(sem_t)); }
static sem_t* mark_of(const char* text) {
  unsigned i = kMarks;
  if (sscanf(text, "key %u", &i) != 1 || i >= kMarks) abort();
  return semaphores() + i;
}
static int is_posted(sem_t* semaphore) {
  int value = 0;
  sem_getvalue(semaphore, &value);
  return value > 0;
}
static void mark(const char* text) { sem_post(mark_of(text)); }
static int reached(const char* text) { return is_posted(mark_of(text)); }

static struct region {
  char* at;
  size_t bytes;
} regions[kRegions];
static void* open_shared(const char* name, size_t bytes) {
  void* at = crashcut_cxl(name, bytes);
  for (int i = 0; i < kRegions; ++i) {
    if (regions[i].at == NULL) regions[i] = (struct region){at, bytes};
    if (regions[i].at == at) return at;
  }
  abort();
}

/* All that was stored so far is durable. Until it has been passed, there is nothing to recover. */
static sem_t* barrier(void) { return semaphores() + kMarks; }
static void pass_barrier(void) {
  for (int i = 0; i < kRegions; ++i) {
    for (size_t at = 0; at < regions[i].bytes; at += 64) __asm__ volatile("clflush %0" : "+m"(regions[i].at[at]));
  }
  sem_post(barrier());
}

#define crashcut_pmem open_shared
#define crashcut_mark mark
#define crashcut_reached reached
#define crashcut_barrier pass_barrier
#define crashcut_recover recover
#define main run_program
#include PROGRAM
#undef main

void crashcut_setup(void) {
  for (int i = 0; i < kMarks + 2; ++i) sem_init(semaphores() + i, 1, 0);
}

static void recover_what_there_is(void) {
  if (is_posted(barrier())) recover();
}

#ifdef RESTARTS
static sem_t* restarted(void) { return semaphores() + kMarks + 1; }

int main(int argc, char** argv) {
  if (crashcut_machine() == 0 && !is_posted(restarted())) return run_program(argc, argv);
  if (crashcut_machine() == 0) return recover_what_there_is(), 0;
  crashcut_wait_machine(0);
  sem_post(restarted());
  crashcut_restart_machine(0);
  return 0;
}
#else
int main(int argc, char** argv) {
  if (crashcut_machine() == 0) return run_program(argc, argv);
  crashcut_wait_machine(0);
  recover_what_there_is();
  return 0;
}
#endif
