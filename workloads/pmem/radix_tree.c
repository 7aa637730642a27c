/* A radix tree, four bits of the key a level. A node has 4 places at first and grows to 16: the grown copy is durable
 * before the parent points to it. A place of a small node is durable before the node counts it.
 *
 * MISTAKE_CONSTRUCTOR  a new node is not flushed
 * MISTAKE_GROW         the parent points to the grown node before that is durable
 * MISTAKE_PLACE        the digit is flushed, but its place in the next line is not
 * MISTAKE_POINTER      the grown node is flushed, but the pointer to it is not
 * MISTAKE_BOUNDS       places that the node does not count are searched, too */
#include "pmem.h"

enum { kBits = 4, kLevels = 4, kSmall = 4, kLarge = 16 };

/* A pointer is 0 or a node; below the last level it is a value. */
struct node {
  uint64_t is_large;
  volatile uint64_t used; /* places of a small node */
  volatile uint8_t digits[8];
  char pad[kLineBytes - 24];
  volatile uint64_t places[kLarge]; /* a small node has the first 4, a large one one a digit */
};
struct tree {
  volatile uint64_t root;
};

static struct tree* the_tree(void) {
  static struct tree* tree;
  if (tree == NULL) tree = (struct tree*)crashcut_pmem("tree", sizeof(struct tree));
  return tree;
}
static unsigned digit_of(uint64_t key, int level) { return key >> (kLevels - 1 - level) * kBits & (kLarge - 1); }

static void persist_new(const struct node* node) {
#ifdef MISTAKE_CONSTRUCTOR
  (void)node;
#else
  persist(node, sizeof *node);
#endif
}

/* Where the digit's pointer is; null: nowhere. */
static volatile uint64_t* find_place(struct node* node, unsigned digit) {
  if (node->is_large) return &node->places[digit];
#ifdef MISTAKE_BOUNDS
  for (uint64_t i = 0; i < kSmall; ++i) {
    if (node->digits[i] == digit && node->places[i] != 0) return &node->places[i];
  }
#else
  for (uint64_t i = 0; i < node->used && i < kSmall; ++i) {
    if (node->digits[i] == digit) return &node->places[i];
  }
#endif
  return NULL;
}

/* The small node's places in a large one. `link` is what points to the node. */
static struct node* grow(volatile uint64_t* link, const struct node* small) {
  struct node* large = (struct node*)allocate(the_pool(), sizeof *large);
  large->is_large = 1;
  for (unsigned i = 0; i < kSmall; ++i) large->places[small->digits[i]] = small->places[i];
#ifdef MISTAKE_GROW
  *link = (uint64_t)large;
  persist(link, 8);
#endif
  persist_new(large);
  *link = (uint64_t)large;
#ifndef MISTAKE_POINTER
  persist(link, 8);
#endif
  return large;
}

/* The place for a digit that the node does not have. */
static void add_place(volatile uint64_t* link, struct node* node, unsigned digit, uint64_t pointer) {
  if (!node->is_large && node->used == kSmall) node = grow(link, node);
  if (node->is_large) {
    node->places[digit] = pointer;
    persist(&node->places[digit], 8);
    return;
  }
  const uint64_t at = node->used;
  node->digits[at] = (uint8_t)digit;
  node->places[at] = pointer;
  flush(&node->digits[at], 1);
#ifndef MISTAKE_PLACE
  flush(&node->places[at], 8);
#endif
  fence();
  node->used = at + 1;
  persist(&node->used, 8);
}

static struct node* make_node(void) {
  struct node* node = (struct node*)allocate(the_pool(), sizeof *node);
  node->is_large = 0;
  node->used = 0;
  return node;
}

static void insert(struct tree* tree, uint64_t key) {
  /* From the leaf up: all that is new is durable before the one pointer that shows it. */
  volatile uint64_t* link = &tree->root;
  int level = 0;
  for (; *link != 0 && level < kLevels; ++level) {
    volatile uint64_t* next = find_place((struct node*)*link, digit_of(key, level));
    if (next == NULL || *next == 0) break;
    link = next;
  }
  uint64_t below = value_of(key);
  const int first_new = *link == 0 ? level : level + 1;
  for (int i = kLevels - 1; i >= first_new; --i) {
    struct node* node = make_node();
    node->digits[0] = (uint8_t)digit_of(key, i);
    node->places[0] = below;
    node->used = 1;
    persist_new(node);
    below = (uint64_t)node;
  }
  if (*link == 0) {
    *link = below;
    persist(link, 8);
  } else {
    add_place(link, (struct node*)*link, digit_of(key, level), below);
  }
}

static uint64_t find(const struct tree* tree, uint64_t key) {
  uint64_t at = tree->root;
  for (int level = 0; level < kLevels && at != 0; ++level) {
    assert(is_in_pool(the_pool(), (struct node*)at));
    const volatile uint64_t* place = find_place((struct node*)at, digit_of(key, level));
    at = place == NULL ? 0 : *place;
  }
  return at;
}

int main(int argc, char** argv) {
  const unsigned count = begin(argc, argv);
  for (unsigned i = 0; i < count; ++i) {
    insert(the_tree(), key_of(i));
    crashcut_mark(promise(i));
  }
  return 0;
}

void crashcut_recover(void) {
  unsigned found = 0, promised = 0;
  while (promised < *kept_count() && crashcut_reached(promise(promised))) ++promised;
  for (unsigned i = 0; i < *kept_count(); ++i) {
    const uint64_t value = find(the_tree(), key_of(i));
    assert(value == 0 || value == value_of(key_of(i)));
    assert(value != 0 || i >= promised);
    assert(value == 0 || i <= promised);
    found += value != 0;
  }
  printf("%u keys\n", found);
}
