/* A lock that transactions elide, as with hardware transactional memory: most threads add to the counter by a
 * transaction, which gives up if the flag says that somebody holds the lock; the others take the lock, set the flag,
 * add, and clear it.
 *
 * The transaction is an instruction here, a compare-exchange of 8 bytes that sees the flag and the counter as one.
 * On x86 the flag waits in the store buffer while the counter is read already: a transaction in between is lost, unless
 * a fence lies between the two. crashcut threads --memory tso finds it; without store buffers there is nothing to find.
 *
 * Arguments: how many threads take the lock (1), how many use transactions (1), "fence" for the right one. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct shared {
  uint32_t is_locked, counter;
} __attribute__((aligned(8)));

static volatile struct shared shared;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int has_fence;

static void* add_with_lock(void* unused) {
  pthread_mutex_lock(&mutex);
  shared.is_locked = 1;
  if (has_fence) atomic_thread_fence(memory_order_seq_cst);
  const uint32_t counter = shared.counter;
  shared.counter = counter + 1;
  shared.is_locked = 0;
  pthread_mutex_unlock(&mutex);
  return unused;
}

static void* add_with_transaction(void* unused) {
  struct shared seen = {0, 0};
  while (1) {
    struct shared next = {0, seen.counter + 1};
    seen.is_locked = 0;
    if (__atomic_compare_exchange((struct shared*)&shared, &seen, &next, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) break;
  }
  return unused;
}

int main(int argc, char** argv) {
  const int lockers = argc > 1 ? atoi(argv[1]) : 1, others = argc > 2 ? atoi(argv[2]) : 1;
  has_fence = argc > 3 && strcmp(argv[3], "fence") == 0;
  pthread_t threads[8];
  assert(lockers + others <= 8);
  for (int i = 0; i < lockers + others; ++i)
    pthread_create(&threads[i], NULL, i < lockers ? add_with_lock : add_with_transaction, NULL);
  for (int i = 0; i < lockers + others; ++i) pthread_join(threads[i], NULL);
  assert(shared.counter == (uint32_t)(lockers + others));
  return 0;
}
