/* A linked list and its length: a transaction puts a node before the first one.
 *
 * MISTAKE_ADD      the transaction stores to the root without TX_ADD
 * MISTAKE_PERSIST  the length is counted and persisted before the transaction */
#include "pool.h"

struct node {
  uint64_t key;
  PMEMoid next;
};
struct list {
  PMEMoid first;
  uint64_t length;
};

static void insert(struct list* list, uint64_t key) {
#ifdef MISTAKE_PERSIST
  ++list->length;
  pmemobj_persist(pool, &list->length, sizeof list->length);
#endif
  TX_BEGIN(pool) {
    const PMEMoid made = pmemobj_tx_zalloc(sizeof(struct node), 1);
    struct node* node = (struct node*)pmemobj_direct(made);
    node->key = key;
    node->next = list->first;
#ifndef MISTAKE_ADD
    pmemobj_tx_add_range_direct(list, sizeof *list);
#endif
    list->first = made;
#ifndef MISTAKE_PERSIST
    ++list->length;
#endif
  }
  TX_ONABORT { abort(); }
  TX_END
}

int main(int argc, char** argv) {
  struct list* list = (struct list*)make_pool(sizeof *list);
  for (unsigned i = 0; i < count_of_keys(argc, argv); ++i) {
    insert(list, key_of(i));
    crashcut_mark(promise(i));
  }
  return 0;
}

void crashcut_recover(void) {
  const struct list* list = (const struct list*)open_pool(sizeof *list);
  uint64_t found = 0;
  for (PMEMoid at = list->first; !OID_IS_NULL(at); ++found) {
    const struct node* node = (const struct node*)pmemobj_direct(at);
    assert(found < list->length); /* a node that was rolled back */
    assert(node->key == key_of(list->length - 1 - found));
    at = node->next;
  }
  assert(found == list->length);
  assert(found >= count_promised());
  printf("%u keys\n", (unsigned)found);
}
