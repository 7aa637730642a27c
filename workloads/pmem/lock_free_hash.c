/* A hash of chains without locks: a node is durable, then a compare-and-swap puts it at the head of its chain, and the
 * head is durable before anybody promises anything. A counter of all keys is guarded by a lock in persistent memory,
 * which recovery opens: its owner is gone.
 *
 * MISTAKE_CONSTRUCTOR  the node is not flushed before the compare-and-swap
 * MISTAKE_HEAD         the head is not flushed before the promise
 * MISTAKE_WRONG_LINE   the first head of the table is flushed instead of the node's
 * MISTAKE_LOCK         recovery waits for the lock */
#include "pmem.h"

enum { kChains = 64 };

struct node {
  uint64_t key, value;
  struct node* next;
};
struct hash {
  struct node* heads[kChains];
  uint64_t lock; /* 1 while somebody counts */
  uint64_t count;
};

static struct hash* the_hash(void) { return (struct hash*)crashcut_pmem("hash", sizeof(struct hash)); }
static struct node** head_of(struct hash* hash, uint64_t key) {
  return &hash->heads[key * 0x9e3779b97f4a7c15ULL >> 58];
}

static void lock(struct hash* hash) {
  while (__atomic_exchange_n(&hash->lock, 1, __ATOMIC_ACQUIRE) != 0) __builtin_ia32_pause();
}
static void unlock(struct hash* hash) { __atomic_store_n(&hash->lock, 0, __ATOMIC_RELEASE); }

static void insert(struct hash* hash, uint64_t key) {
  struct node** const head = head_of(hash, key);
  struct node* node = (struct node*)allocate(the_pool(), sizeof *node);
  node->key = key;
  node->value = value_of(key);
  node->next = __atomic_load_n(head, __ATOMIC_ACQUIRE);
  do {
#ifndef MISTAKE_CONSTRUCTOR
    persist(node, sizeof *node);
#endif
  } while (!__atomic_compare_exchange_n(head, &node->next, node, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
#if defined(MISTAKE_WRONG_LINE)
  persist(&hash->heads[0], 8);
#elif !defined(MISTAKE_HEAD)
  persist(head, 8);
#endif
#ifndef SHARED_BY_MACHINES
  lock(hash);
  ++hash->count;
  unlock(hash);
#endif
}

static const struct node* find(struct hash* hash, uint64_t key) {
  const struct node* node = __atomic_load_n(head_of(hash, key), __ATOMIC_ACQUIRE);
  for (unsigned steps = 0; node != NULL && node->key != key; node = node->next)
    assert(is_in_pool(the_pool(), node) && ++steps <= *kept_count());
  return node;
}

int main(int argc, char** argv) {
  const unsigned count = begin(argc, argv);
  for (unsigned i = 0; i < count; ++i) {
    insert(the_hash(), key_of(i));
    crashcut_mark(promise(i));
  }
  return 0;
}

void crashcut_recover(void) {
  struct hash* hash = the_hash();
  unsigned found = 0, promised = 0;
  while (promised < *kept_count() && crashcut_reached(promise(promised))) ++promised;
  for (unsigned i = 0; i < *kept_count(); ++i) {
    const struct node* node = find(hash, key_of(i));
    assert(node == NULL || node->value == value_of(key_of(i)));
    assert(node != NULL || i >= promised);
    assert(node == NULL || i <= promised);
    found += node != NULL;
  }
#ifndef MISTAKE_LOCK
  unlock(hash);
#endif
  lock(hash);
  hash->count = found; /* what was counted may be lost: it is counted again */
  unlock(hash);
  printf("%u keys\n", found);
}
