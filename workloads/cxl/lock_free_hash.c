/* The lock-free hash of workloads/pmem/, shared by machines. A key shows by one compare-and-swap: there is nothing to
 * repair. Its counter of all keys is left out, since nobody could tell whether a dead machine had counted its last key:
 * each thread counts its own.
 *
 * MISTAKE_CONSTRUCTOR, MISTAKE_HEAD, MISTAKE_WRONG_LINE as there */
#include "index.h"
/**/
#include "../pmem/lock_free_hash.c"

#define INDEX_WITHOUT_LOCK
static void put(uint64_t key) { insert(the_hash(), key); }
static uint64_t get(uint64_t key) {
  const struct node* node = find(the_hash(), key);
  return node == NULL ? 0 : node->value;
}

#include "index_main.h"
