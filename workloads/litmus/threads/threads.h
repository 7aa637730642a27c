/* threads.h: the words that the threaded litmus programs share, beside those of litmus.h.
 *
 * The comment that opens a program says what it shows, and is what tests/thread_litmus_test.cc checks:
 *   threads: OPTIONS              options of `crashcut threads`
 *   outcomes: A | B | C           exactly these outputs of recovery; or
 *   outcome-count: N              exactly so many
 *   executions: N                 exactly so many
 *   recoveries: N                 exactly so many, of all executions together
 *   paper-count: N                what PerSeVerE's authors count; neither of the two is ever more
 *   violation: yes                some recovery fails; without it, none does
 */
#ifndef CRASHCUT_LITMUS_THREADS_H
#define CRASHCUT_LITMUS_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "../litmus.h"

#define THREADS_MOST 8

/* Starts `count` threads, numbered from 0, and waits for their end. */
WORD void run_threads(long count, void* (*work)(void*)) {
  pthread_t threads[THREADS_MOST];
  for (long i = 0; i < count; ++i) must(-pthread_create(&threads[i], NULL, work, (void*)i));
  for (long i = 0; i < count; ++i) must(-pthread_join(threads[i], NULL));
}

#endif
