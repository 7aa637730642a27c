/* A binary search tree and how many keys it has: a transaction hangs a leaf into it.
 *
 * MISTAKE_ADD      the leaf's parent is stored to without TX_ADD
 * MISTAKE_PERSIST  the number of keys is counted and persisted after the transaction */
#include "pool.h"

struct node {
  uint64_t key;
  PMEMoid child[2];
};
struct tree {
  PMEMoid root;
  uint64_t keys;
};

/* Where the key's leaf belongs. */
static PMEMoid* find_place(struct tree* tree, uint64_t key) {
  PMEMoid* place = &tree->root;
  while (!OID_IS_NULL(*place)) {
    struct node* node = (struct node*)pmemobj_direct(*place);
    place = &node->child[key > node->key];
  }
  return place;
}

static void insert(struct tree* tree, uint64_t key) {
  TX_BEGIN(pool) {
    PMEMoid* const place = find_place(tree, key);
    const PMEMoid made = pmemobj_tx_zalloc(sizeof(struct node), 1);
    ((struct node*)pmemobj_direct(made))->key = key;
#ifndef MISTAKE_ADD
    pmemobj_tx_add_range_direct(place, sizeof *place);
#endif
    *place = made;
#ifndef MISTAKE_PERSIST
    pmemobj_tx_add_range_direct(&tree->keys, sizeof tree->keys);
    ++tree->keys;
#endif
  }
  TX_ONABORT { abort(); }
  TX_END
#ifdef MISTAKE_PERSIST
  ++tree->keys;
  pmemobj_persist(pool, &tree->keys, sizeof tree->keys);
#endif
}

static unsigned count(PMEMoid at, uint64_t above, uint64_t below) {
  if (OID_IS_NULL(at)) return 0;
  const struct node* node = (const struct node*)pmemobj_direct(at);
  assert(node->key > above && node->key < below);
  return 1 + count(node->child[0], above, node->key) + count(node->child[1], node->key, below);
}

int main(int argc, char** argv) {
  struct tree* tree = (struct tree*)make_pool(sizeof *tree);
  for (unsigned i = 0; i < count_of_keys(argc, argv); ++i) {
    insert(tree, key_of(i));
    crashcut_mark(promise(i));
  }
  return 0;
}

void crashcut_recover(void) {
  const struct tree* tree = (const struct tree*)open_pool(sizeof *tree);
  const unsigned found = count(tree->root, 0, UINT64_MAX);
  assert(found == tree->keys);
  assert(found >= count_promised());
  printf("%u keys\n", found);
}
