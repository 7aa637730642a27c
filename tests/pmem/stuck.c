/* Recoveries that wait for a word: some for ever, and some that end after a while. */
#include <assert.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "tests/pmem/by_hand.h"

enum { kMany = 3000000 };

static uint64_t* words(void) { return crashcut_pmem("words", 256); }
static volatile uint64_t rounds;
static volatile sig_atomic_t is_over;

static void end_wait(int signal) {
  (void)signal;
  is_over = 1;
}
static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
static int test_and_set(uint64_t* lock) {
  uint64_t one = 1, old;
  __crashcut_rmw(__CRASHCUT_XCHG, lock, &one, &old, 8, __ATOMIC_SEQ_CST);
  return (int)old;
}

int main(void) {
  uint64_t* w = words();
  set(w, 1);
  return 0;
}

void crashcut_recover(void) {
  uint64_t* w = words();
  const char* how = getenv("WAIT");
  if (get(w) == 0 || how == NULL) return;
#define CASE(name) if (strcmp(how, name) == 0)
  CASE("spins") while (get(w) == 1) {}
  CASE("yields") while (get(w) == 1) sched_yield();
  CASE("sleeps") while (get(w) == 1) usleep(10);
  CASE("locks") while (test_and_set(w) != 0) {}
  CASE("walks") for (uint64_t i = 0; get(w + i) < 9; i = (i + 1) % 3) {}
  CASE("stores the same") while (get(w) == 1) set(w + 1, 7);
  CASE("keeps time in vain") for (double now = 0; get(w) == 1; now = seconds()) rounds = now < 0;

  CASE("counts in a register") for (uint64_t i = 0; get(w) == 1 && i < kMany; ++i) {}
  CASE("counts in memory") while (get(w) == 1 && ++rounds < kMany) {}
  CASE("counts in persistent memory") while (get(w) < kMany / 8) set(w, get(w) + 1);
  CASE("waits for the clock") for (const double end = seconds() + 0.5; get(w) == 1 && seconds() < end;) {}
  CASE("waits for the processor's clock")
  for (const uint64_t end = __rdtsc() + 1000000000; get(w) == 1 && __rdtsc() < end;) {
  }
  CASE("waits for a signal") {
    signal(SIGALRM, end_wait);
    alarm(1);
    while (get(w) == 1 && !is_over) {
    }
  }
}
