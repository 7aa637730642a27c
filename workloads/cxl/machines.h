/* What the programs of this folder share: memory that is flushed, threads, and locks that survive their owner.
 *
 * Each program runs on two machines, and checks itself by assertions. Any of them may fail at any time: the other one
 * goes on. -DMISTAKE_... builds a program with one mistake. Without crashcut one machine plays both parts. */
#ifndef WORKLOADS_CXL_MACHINES_H
#define WORKLOADS_CXL_MACHINES_H

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#include "crashcut.h"

/* The pool of workloads/pmem/, and its indexes, lie in memory that machines share. */
#define SHARED_BY_MACHINES
#define crashcut_pmem crashcut_cxl
#include "../pmem/pmem.h"

enum { kMachinesMost = 2, kThreadsMost = 4 };

/* A mutex that tells the next owner that its owner died. On lines of its own: it is not data. */
struct guard {
  pthread_mutex_t mutex;
} __attribute__((aligned(64)));

static inline void make_guard(struct guard* guard) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  assert(pthread_mutex_init(&guard->mutex, &attributes) == 0);
}

/* Locks. If the last owner's machine failed meanwhile, what it left is repaired first. A machine that fails while it
 * repairs leaves that to the next owner. */
static inline void enter(struct guard* guard, void (*repair)(void)) {
  const int error = pthread_mutex_lock(&guard->mutex);
  assert(error == 0 || error == EOWNERDEAD);
  int repairs = 1;
#if defined(MISTAKE_NO_REPAIR)
  repairs = 0;
#elif defined(MISTAKE_REPAIR_AT_START)
  static __thread int has_started;
  repairs = !has_started;
  has_started = 1;
#endif
  if (error == 0) return;
  if (repairs) repair();
  assert(pthread_mutex_consistent(&guard->mutex) == 0);
}
static inline void leave(struct guard* guard) { assert(pthread_mutex_unlock(&guard->mutex) == 0); }

/* A thread that learns when the machine has ended or failed. */
struct watch {
  int machine;
  int is_over;    /* atomic */
  sem_t* to_post; /* then, so that nobody waits for that machine any more */
};
static inline void* watch_machine(void* given) {
  struct watch* watch = (struct watch*)given;
  crashcut_wait_machine(watch->machine);
  __atomic_store_n(&watch->is_over, 1, __ATOMIC_SEQ_CST);
  sem_post(watch->to_post);
  return NULL;
}
static inline void begin_watch(struct watch* watch) {
  pthread_t thread;
  assert(pthread_create(&thread, NULL, watch_machine, watch) == 0);
  pthread_detach(thread);
}
static inline int is_over(const struct watch* watch) { return __atomic_load_n(&watch->is_over, __ATOMIC_SEQ_CST); }

static inline void run_threads(unsigned count, void* (*run)(void*)) {
  static unsigned numbers[kThreadsMost];
  pthread_t threads[kThreadsMost];
  assert(count <= kThreadsMost);
  for (unsigned i = 0; i < count; ++i) numbers[i] = i;
  if (count == 1) {
    run(&numbers[0]);
    return;
  }
  for (unsigned i = 0; i < count; ++i) assert(pthread_create(&threads[i], NULL, run, &numbers[i]) == 0);
  for (unsigned i = 0; i < count; ++i) assert(pthread_join(threads[i], NULL) == 0);
}

#endif
