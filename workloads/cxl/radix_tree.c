/* The radix tree of workloads/pmem/, shared by machines under one lock. Each insertion shows by one store, and what a
 * dead owner has not shown is overwritten or lost: there is nothing to repair.
 *
 * MISTAKE_CONSTRUCTOR, MISTAKE_GROW, MISTAKE_PLACE, MISTAKE_POINTER as there
 * MISTAKE_BOUNDS  a search looks at all places of a small node, also at one that is not counted yet: what a half
 *                 insertion left there is seen, and overwritten by the next one */
#include "index.h"
/**/
#include "../pmem/radix_tree.c"

static void put(uint64_t key) { insert(the_tree(), key); }
static uint64_t get(uint64_t key) { return find(the_tree(), key); }
static void repair(void) {}

#include "index_main.h"
