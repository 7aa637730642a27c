/* Threads that meet in variables whose stores may wait in store buffers: crashcut threads --memory tso. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int has_fence;
static void fence(void) {
  if (has_fence) __asm__ volatile("mfence" ::: "memory");
}

/* Store buffering. */
static atomic_int x, y;
static int saw_x, saw_y;
static void* store_x(void* unused) {
  atomic_store_explicit(&x, 1, memory_order_relaxed);
  fence();
  saw_y = atomic_load_explicit(&y, memory_order_relaxed);
  return unused;
}
static void* store_y(void* unused) {
  atomic_store_explicit(&y, 1, memory_order_release);
  fence();
  saw_x = atomic_load_explicit(&x, memory_order_acquire);
  return unused;
}

/* The same with stores that are fences themselves. */
static void* exchange_x(void* unused) {
  atomic_store(&x, 1);
  saw_y = atomic_load(&y);
  return unused;
}
static void* exchange_y(void* unused) {
  atomic_store(&y, 1);
  saw_x = atomic_load(&x);
  return unused;
}

/* Accesses that are repeated, and change nothing, but are no loop. */
static int pair[2];
static void* store_often(void* unused) {
  pair[0] = 1;
  atomic_store(&x, 1);
  atomic_store(&x, 1);
  atomic_store(&x, 1);
  return unused;
}
static void* copy_often(void* unused) {
  const volatile size_t bytes = sizeof pair;
  int first[2], second[2];
  memcpy(first, pair, bytes);
  memcpy(second, pair, bytes);
  assert(first[0] <= second[0]);
  return unused;
}

/* A thread finds its own stores, and its plain stores come after its atomic ones. */
static struct { int first, second; } own;
static void* use_own(void* unused) {
  int seen;
  atomic_store_explicit(&x, 1, memory_order_relaxed);
  __atomic_store_n(&own.first, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&own.second, 1, __ATOMIC_RELAXED);
  assert(*(volatile int*)&own.first == 1);
  *(volatile int*)&own.second = 2;
  memcpy(&seen, &own.second, sizeof seen);
  assert(seen == 2);
  return unused;
}

/* Peterson's lock, with plain variables. */
static volatile int wants[2], turn;
static int inside;
static void* enter(void* number) {
  const int own = (int)(intptr_t)number;
  wants[own] = 1;
  turn = 1 - own;
  fence();
  while (wants[1 - own] && turn == 1 - own) {
  }
  ++inside;
  assert(inside == 1);
  --inside;
  wants[own] = 0;
  return NULL;
}

/* A message behind a flag needs no fence on x86. */
static volatile int message, is_sent;
static void* send(void* unused) {
  message = 42;
  is_sent = 1;
  return unused;
}
static void* receive(void* unused) {
  while (!is_sent) {
  }
  assert(message == 42);
  return unused;
}

/* Locks of locked instructions, released by an ordinary store. */
static uint64_t lock;
static int count;
static void* exchange(void* unused) {
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE) != 0) {
  }
  ++count;
  __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
  return unused;
}
static void* compare(void* unused) {
  while (!__sync_bool_compare_and_swap(&lock, 0, 1)) {
  }
  ++count;
  __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
  return unused;
}

static void run_both(void* (*first)(void*), void* (*second)(void*)) {
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, first, NULL);
  pthread_create(&threads[1], NULL, second, (void*)1);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  has_fence = argc > 2 && strcmp(argv[2], "fence") == 0;
  if (strcmp(what, "buffering") == 0) {
    run_both(store_x, store_y);
    assert(saw_x || saw_y);
  } else if (strcmp(what, "exchanged") == 0) {
    run_both(exchange_x, exchange_y);
    assert(saw_x || saw_y);
  } else if (strcmp(what, "often") == 0) {
    run_both(store_often, copy_often);
  } else if (strcmp(what, "own") == 0) {
    run_both(use_own, store_y);
    assert(own.first == 1 && own.second == 2);
  } else if (strcmp(what, "peterson") == 0) {
    run_both(enter, enter);
  } else if (strcmp(what, "message") == 0) {
    run_both(send, receive);
  } else if (strcmp(what, "exchange") == 0) {
    run_both(exchange, exchange);
    assert(count == 2);
  } else if (strcmp(what, "compare") == 0) {
    run_both(compare, compare);
    assert(count == 2);
  } else {
    return 1;
  }
  return 0;
}
