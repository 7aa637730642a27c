/* A list with a commit store a node. "list N": N nodes are put in front. "wrong": the node is not flushed. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/pmem/by_hand.h"

struct Node {
  uint64_t value, check, next, pad[5];
};
struct List {
  uint64_t head, pad[7];
  struct Node nodes[4096];
};

static struct List* list(void) { return crashcut_pmem("list", sizeof(struct List)); }

int main(int argc, char** argv) {
  struct List* l = list();
  const int count = argc > 1 ? atoi(argv[1]) : 4;
  const int is_wrong = argc > 2 && strcmp(argv[2], "wrong") == 0;
  for (int i = 0; i < count; ++i) {
    struct Node* node = &l->nodes[i];
    set(&node->value, (uint64_t)i + 1);
    set(&node->check, ~((uint64_t)i + 1));
    set(&node->next, get(&l->head));
    if (!is_wrong) {
      __crashcut_clwb(node);
      __crashcut_sfence();
    }
    set(&l->head, (uint64_t)node);
    __crashcut_clwb(&l->head);
    __crashcut_sfence();
  }
  return 0;
}

void crashcut_recover(void) {
  struct List* l = list();
  uint64_t length = 0, last = 0;
  for (struct Node* node = (struct Node*)get(&l->head); node != NULL; node = (struct Node*)get(&node->next)) {
    const uint64_t value = get(&node->value);
    assert(get(&node->check) == ~value);
    assert(last == 0 || value + 1 == last);
    last = value;
    ++length;
  }
  assert(length == 0 || last == 1);
  printf("%d nodes\n", (int)length);
}
