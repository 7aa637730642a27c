/* A B+-tree whose nodes change by failure-atomic shifts, after the idea of FAST and FAIR: entries move one by one, the
 * pointer before the key, so that an entry whose pointer equals its left neighbour's is a copy and is skipped. A line
 * is flushed before the next lower one changes. A node splits into a sibling that is durable before anything points to
 * it; a search that comes to the left half goes on to the sibling.
 *
 * MISTAKE_CONSTRUCTOR  a new node is not flushed
 * MISTAKE_ROOT         the new root is flushed instead of the pointer to it
 * MISTAKE_SHIFT        shifting does not flush a line before the next lower one changes
 * MISTAKE_SPLIT        the left half is cut before the sibling is linked */
#include "pmem.h"

enum { kCapacity = 6, kDepthMost = 12 };

struct entry {
  volatile uint64_t key;
  volatile uint64_t pointer; /* a leaf's: the value; else a node. 0 after the last entry */
};
struct node {
  uint64_t is_leaf;
  uint64_t lowest;            /* no key of the node is lower */
  volatile uint64_t leftmost; /* of an inner node: the child for keys below the first entry's */
  struct node* volatile sibling;
  char pad[kLineBytes - 32];
  struct entry entries[kCapacity + 1]; /* 4 a line */
};
struct tree {
  struct node* volatile root;
};

static struct tree* the_tree(void) { return (struct tree*)crashcut_pmem("tree", sizeof(struct tree)); }

static struct node* make_node(int is_leaf, uint64_t lowest, uint64_t leftmost) {
  struct node* node = (struct node*)allocate(the_pool(), sizeof *node);
  node->is_leaf = (uint64_t)is_leaf;
  node->lowest = lowest;
  node->leftmost = leftmost;
  return node;
}
static void persist_new(const struct node* node) {
#ifndef MISTAKE_CONSTRUCTOR
  persist(node, sizeof *node);
#else
  (void)node;
#endif
}

static uint64_t pointer_before(const struct node* node, int i) {
  return i == 0 ? node->leftmost : node->entries[i - 1].pointer;
}
static int is_valid(const struct node* node, int i) {
  return node->entries[i].pointer != 0 && node->entries[i].pointer != pointer_before(node, i);
}
static int count_entries(const struct node* node) {
  int n = 0;
  while (n <= kCapacity && (node->entries[n].pointer != 0)) ++n;
  return n;
}
static int is_line_start(int i) { return i % (kLineBytes / (int)sizeof(struct entry)) == 0; }

static void insert_here(struct node* node, uint64_t key, uint64_t pointer) {
  const int n = count_entries(node);
  assert(n < kCapacity);
  int at = n;
  node->entries[n + 1].pointer = 0;
  if (is_line_start(n + 1)) persist(&node->entries[n + 1], sizeof(struct entry));
  for (; at > 0 && node->entries[at - 1].key > key; --at) {
    node->entries[at].pointer = node->entries[at - 1].pointer;
    node->entries[at].key = node->entries[at - 1].key;
#ifndef MISTAKE_SHIFT
    if (is_line_start(at)) persist(&node->entries[at], sizeof(struct entry));
#endif
  }
  node->entries[at].pointer = pointer_before(node, at);
  node->entries[at].key = key;
  node->entries[at].pointer = pointer;
  persist(&node->entries[at], sizeof(struct entry) * (size_t)(n + 1 - at));
}

static struct node* child_of(const struct node* node, uint64_t key) {
  uint64_t child = node->leftmost;
  for (int i = 0; i < kCapacity && node->entries[i].pointer != 0; ++i) {
    if (is_valid(node, i) && node->entries[i].key <= key) child = node->entries[i].pointer;
  }
  return (struct node*)child;
}

/* The node's upper half moves to a new sibling. */
static struct node* split(struct node* node) {
  const int middle = kCapacity / 2;
  const uint64_t separator = node->entries[middle].key;
  struct node* right = make_node((int)node->is_leaf, separator, node->is_leaf ? 0 : node->entries[middle].pointer);
  const int first = node->is_leaf ? middle : middle + 1;
  for (int i = first; i < kCapacity; ++i) {
    right->entries[i - first].key = node->entries[i].key;
    right->entries[i - first].pointer = node->entries[i].pointer;
  }
  right->sibling = node->sibling;
  persist_new(right);
#ifdef MISTAKE_SPLIT
  node->entries[middle].pointer = 0;
  persist(&node->entries[middle], sizeof(struct entry));
  node->sibling = right;
  persist(&node->sibling, 8);
#else
  node->sibling = right;
  persist(&node->sibling, 8);
  node->entries[middle].pointer = 0;
  persist(&node->entries[middle], sizeof(struct entry));
#endif
  return right;
}

static void set_root(struct tree* tree, struct node* root) {
  persist_new(root);
  tree->root = root;
#ifdef MISTAKE_ROOT
  persist(root, sizeof *root);
#else
  persist(&tree->root, 8);
#endif
}

static void insert(struct tree* tree, uint64_t key) {
  if (tree->root == NULL) set_root(tree, make_node(1, 0, 0));
  struct node* path[kDepthMost];
  int depth = 0;
  struct node* node = tree->root;
  while (!node->is_leaf) {
    path[depth++] = node;
    assert(depth < kDepthMost);
    node = child_of(node, key);
  }
  uint64_t new_key = key, new_pointer = value_of(key);
  for (;;) {
    if (count_entries(node) < kCapacity) {
      insert_here(node, new_key, new_pointer);
      return;
    }
    struct node* right = split(node);
    insert_here(new_key < right->lowest ? node : right, new_key, new_pointer);
    if (depth == 0) {
      struct node* root = make_node(0, 0, (uint64_t)node);
      root->entries[0].key = right->lowest;
      root->entries[0].pointer = (uint64_t)right;
      set_root(tree, root);
      return;
    }
    new_key = right->lowest;
    new_pointer = (uint64_t)right;
    node = path[--depth];
  }
}

static uint64_t find(const struct tree* tree, uint64_t key) {
  const struct node* node = tree->root;
  for (int steps = 0; node != NULL; ++steps) {
    assert(is_in_pool(the_pool(), node) && steps < 2 * kDepthMost);
    const struct node* sibling = node->sibling;
    if (sibling != NULL) assert(is_in_pool(the_pool(), sibling));
    if (sibling != NULL && key >= sibling->lowest) {
      node = sibling;
    } else if (!node->is_leaf) {
      node = child_of(node, key);
    } else {
      for (int i = 0; i < kCapacity && (i == 0 || node->entries[i].pointer != 0); ++i) {
        if (is_valid(node, i) && node->entries[i].key == key) return node->entries[i].pointer;
      }
      return 0;
    }
  }
  return 0;
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
    assert(value != 0 || i >= promised); /* what was promised is there */
    assert(value == 0 || i <= promised); /* nothing comes before its insertion */
    found += value != 0;
  }
  printf("%u keys\n", found);
}
