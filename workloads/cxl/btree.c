/* The B+-tree of workloads/pmem/, shared by machines under one lock. An owner that dies leaves entries twice, or a node
 * whose upper half is in its sibling already: a search copes with that, an insertion does not. So the next owner makes
 * a new tree of all that a search finds, and the root leads to it when it is durable.
 *
 * MISTAKE_CONSTRUCTOR, MISTAKE_ROOT, MISTAKE_SHIFT, MISTAKE_SPLIT as there
 * MISTAKE_NO_REPAIR        the next owner inserts into what the dead one left
 * MISTAKE_REPAIR_AT_START  ... unless it had not used the tree before */
#include "index.h"
/**/
#include "../pmem/btree.c"

static void put(uint64_t key) { insert(the_tree(), key); }
static uint64_t get(uint64_t key) { return find(the_tree(), key); }
static void repair(void) {
  struct tree* fresh = (struct tree*)allocate(the_pool(), sizeof *fresh);
  for (unsigned i = 0; i < *kept_count(); ++i) {
    if (get(key_of(i)) != 0) insert(fresh, key_of(i));
  }
  the_tree()->root = fresh->root;
  persist(&the_tree()->root, 8);
}

#include "index_main.h"
