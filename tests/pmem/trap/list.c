/* A list in persistent memory, with a node's flush left out in its wrong twin: list COUNT [wrong]. */
#include <assert.h>
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>

#include "crashcut.h"

struct Node {
  long value, check;
  struct Node* next;
  long pad[5];
};
struct List {
  struct Node* head;
  long pad[7];
  struct Node nodes[64];
};

static struct List* list(void) { return crashcut_pmem("list", sizeof(struct List)); }

int main(int argc, char** argv) {
  struct List* l = list();
  const int count = argc > 1 ? atoi(argv[1]) : 1;
  for (int i = 0; i < count; ++i) {
    struct Node* node = &l->nodes[i];
    node->value = i + 1;
    node->check = ~(i + 1L);
    node->next = l->head;
    if (argc < 3) _mm_clwb(node);
    _mm_sfence();
    l->head = node;
    _mm_clwb(&l->head);
    _mm_sfence();
  }
  return 0;
}

void crashcut_recover(void) {
  long sum = 0;
  for (const struct Node* node = list()->head; node != NULL; node = node->next) {
    assert(node->check == ~node->value);
    sum += node->value;
  }
  printf("%ld\n", sum);
}
