// The system calls of a Rust program without Rust: poll() at the start, SIGPIPE ignored, a lock and a condition
// variable of inline atomics and futexes, as Rust's std has them. The first argument says which.
#define _GNU_SOURCE
#include <assert.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IS(name) (strcmp(argv[1], name) == 0)

typedef _Atomic unsigned Word;
static void wait_while(Word* word, unsigned value) {
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value, NULL, NULL, -1);
}
static void wake(Word* word, int most) { syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, most); }

// 0 free, 1 locked, 2 locked and waited for.
static void lock(Word* m) {
  unsigned is = 0;
  if (atomic_compare_exchange_strong(m, &is, 1)) return;
  while (atomic_exchange(m, 2) != 0) wait_while(m, 2);
}
static void unlock(Word* m) {
  if (atomic_exchange(m, 0) == 2) wake(m, 1);
}
// Counts how often it was told.
static void wait_for(Word* c, Word* m) {
  const unsigned told = atomic_load(c);
  unlock(m);
  wait_while(c, told);
  lock(m);
}
static void tell(Word* c) {
  atomic_fetch_add(c, 1);
  wake(c, 1);
}

static Word a, b, c;
static volatile int value, is_ready, is_crossed;

static void* counts(void* unused) {
  lock(&a);
  const int before = value;
  sched_yield();
  value = before + 1;
  unlock(&a);
  return unused;
}
static void* locks_both(void* unused) {
  lock(&a);
  sched_yield();
  lock(&b);
  unlock(&b);
  unlock(&a);
  return unused;
}
static void* tells(void* unused) {
  lock(&a);
  is_ready = 1;
  unlock(&a);
  tell(&c);
  return unused;
}

static Word gate;
static void* opens(void* unused) {
  atomic_store(&gate, 1);
  wake(&gate, 1);
  return unused;
}

int main(int argc, char** argv) {
  assert(argc == 2);
  struct pollfd fds[3] = {{0, 0, 0}, {1, 0, 0}, {2, 0, 0}};
  assert(poll(fds, 3, 0) >= 0);
  signal(SIGPIPE, SIG_IGN);
  pthread_t t, u;
  // Threads meet, and have to wait for each other.
  pthread_create(&t, NULL, opens, NULL);
  while (!atomic_load(&gate)) wait_while(&gate, 0);
  pthread_join(t, NULL);
  if (IS("counts")) {
    pthread_create(&t, NULL, counts, NULL);
    pthread_create(&u, NULL, counts, NULL);
    pthread_join(t, NULL);
    pthread_join(u, NULL);
    assert(value == 2);
  }
  is_crossed = IS("crossed");
  if (is_crossed || IS("in-order")) {
    pthread_create(&t, NULL, locks_both, NULL);
    lock(is_crossed ? &b : &a);
    sched_yield();
    lock(is_crossed ? &a : &b);
    unlock(&a);
    unlock(&b);
    pthread_join(t, NULL);
  }
  if (IS("condition") || IS("told-too-early")) {
    pthread_create(&t, NULL, tells, NULL);
    sched_yield();
    lock(&a);
    if (IS("told-too-early")) {
      wait_for(&c, &a);
    } else {
      while (!is_ready) wait_for(&c, &a);
    }
    unlock(&a);
    pthread_join(t, NULL);
  }
  return 0;
}
