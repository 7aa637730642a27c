/* The lock-free hash of workloads/pmem/, shared by machines. A key shows by one compare-and-swap: there is nothing to
 * repair. How many keys were put, and how many bytes they take, is counted under a lock of its own, which is no robust
 * one: the next owner asks whether the last one died, and counts the bytes again.
 *
 * MISTAKE_CONSTRUCTOR, MISTAKE_HEAD, MISTAKE_WRONG_LINE as there
 * MISTAKE_LOCK  the next owner does not ask: the lock was released by the death of its owner, who had changed one of
 *               the two counters */
#include "index.h"
/**/
#include "../pmem/lock_free_hash.c"

struct tally {
  pthread_mutex_t mutex __attribute__((aligned(64)));
  volatile uint64_t keys __attribute__((aligned(64)));
  volatile uint64_t bytes __attribute__((aligned(64)));
};
static struct tally* the_tally(void) {
  static struct tally* tally;
  if (tally == NULL) tally = (struct tally*)crashcut_cxl("tally", sizeof(struct tally));
  return tally;
}
static void set_up_tally(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  assert(pthread_mutex_init(&the_tally()->mutex, &attributes) == 0);
  the_tally()->keys = the_tally()->bytes = 0;
  persist(&the_tally()->keys, 2 * kLineBytes);
}

static void set(volatile uint64_t* counter, uint64_t value) {
  *counter = value;
  persist(counter, 8);
}
static void count_key(void) {
  struct tally* tally = the_tally();
  assert(pthread_mutex_lock(&tally->mutex) == 0);
#ifndef MISTAKE_LOCK
  if (crashcut_owner_died(&tally->mutex)) set(&tally->bytes, tally->keys * sizeof(struct node));
#endif
  assert(tally->bytes == tally->keys * sizeof(struct node));
  set(&tally->keys, tally->keys + 1);
  set(&tally->bytes, tally->keys * sizeof(struct node));
  assert(pthread_mutex_unlock(&tally->mutex) == 0);
}

#define INDEX_WITHOUT_LOCK
#define INDEX_SETUP set_up_tally
static void put(uint64_t key) {
  insert(the_hash(), key);
  count_key();
}
static uint64_t get(uint64_t key) {
  const struct node* node = find(the_hash(), key);
  return node == NULL ? 0 : node->value;
}

#include "index_main.h"
