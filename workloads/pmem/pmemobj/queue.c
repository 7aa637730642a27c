/* A queue: a transaction links a node behind the last one.
 *
 * MISTAKE_ADD      the last node gets its successor without TX_ADD
 * MISTAKE_PERSIST  the queue's last node is set and persisted after the transaction, not in it */
#include "pool.h"

struct node {
  uint64_t key;
  PMEMoid next;
};
struct queue {
  PMEMoid first, last;
};

static void link_behind(struct queue* queue, PMEMoid made) {
  if (OID_IS_NULL(queue->last)) {
    queue->first = made;
    return;
  }
  struct node* last = (struct node*)pmemobj_direct(queue->last);
#ifndef MISTAKE_ADD
  pmemobj_tx_add_range_direct(&last->next, sizeof last->next);
#endif
  last->next = made;
}

static void enqueue(struct queue* queue, uint64_t key) {
  static PMEMoid made; /* a transaction that aborts jumps: a local variable would be lost */
  TX_BEGIN(pool) {
    made = pmemobj_tx_zalloc(sizeof(struct node), 1);
    ((struct node*)pmemobj_direct(made))->key = key;
    pmemobj_tx_add_range_direct(queue, sizeof *queue);
    link_behind(queue, made);
#ifndef MISTAKE_PERSIST
    queue->last = made;
#endif
  }
  TX_ONABORT { abort(); }
  TX_END
#ifdef MISTAKE_PERSIST
  queue->last = made;
  pmemobj_persist(pool, &queue->last, sizeof queue->last);
#endif
}

/* The first key is there before anything can crash: each later one has a node to be linked behind. */
int main(int argc, char** argv) {
  struct queue* queue = (struct queue*)make_pool(sizeof *queue);
  enqueue(queue, key_of(0));
  crashcut_mark(promise(0));
  crashcut_barrier();
  for (unsigned i = 1; i <= count_of_keys(argc, argv); ++i) {
    enqueue(queue, key_of(i));
    crashcut_mark(promise(i));
  }
  return 0;
}

void crashcut_recover(void) {
  const struct queue* queue = (const struct queue*)open_pool(sizeof *queue);
  unsigned found = 0;
  PMEMoid last = OID_NULL;
  for (PMEMoid at = queue->first; !OID_IS_NULL(at); ++found) {
    const struct node* node = (const struct node*)pmemobj_direct(at);
    assert(node->key == key_of(found)); /* else it was rolled back, and is nobody's */
    last = at;
    at = node->next;
  }
  assert(OID_EQUALS(last, queue->last));
  assert(found >= count_promised());
  printf("%u keys\n", found);
}
