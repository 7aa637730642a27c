/* A linked list: a node is complete and durable before the head points to it.
 *
 * MISTAKE_CONSTRUCTOR   the node is not flushed
 * MISTAKE_POINTER       the node is flushed again, instead of the head that points to it
 * MISTAKE_ORDER         the head is stored first, and both are flushed after it
 * MISTAKE_FENCE         no fence between the node's flush and the head */
#include "pmem.h"

struct node {
  uint64_t key, value;
  struct node* next;
};
struct list {
  struct node* volatile head;
};

static struct list* the_list(void) { return (struct list*)crashcut_pmem("list", sizeof(struct list)); }

static void insert(struct list* list, uint64_t key) {
  struct node* node = (struct node*)allocate(the_pool(), sizeof *node);
  struct node* const next = list->head;
#ifdef MISTAKE_ORDER
  list->head = node;
#endif
  node->key = key;
  node->value = value_of(key);
  node->next = next;
#ifdef MISTAKE_FENCE
  flush(node, sizeof *node);
#elif !defined(MISTAKE_CONSTRUCTOR)
  persist(node, sizeof *node);
#endif
  list->head = node;
#ifdef MISTAKE_POINTER
  persist(node, sizeof *node);
#else
  persist(&list->head, sizeof list->head);
#endif
}

int main(int argc, char** argv) {
  const unsigned count = begin(argc, argv);
  for (unsigned i = 0; i < count; ++i) {
    insert(the_list(), key_of(i));
    crashcut_mark(promise(i));
  }
  return 0;
}

void crashcut_recover(void) {
  struct list* list = the_list();
  unsigned found = 0;
  for (const struct node* node = list->head; node != NULL; node = node->next) {
    assert(is_in_pool(the_pool(), node) && found < *kept_count());
    ++found;
  }
  /* The newest key is first. */
  const struct node* node = list->head;
  for (unsigned i = found; i-- > 0; node = node->next)
    assert(node->key == key_of(i) && node->value == value_of(node->key));
  for (unsigned i = found; i < *kept_count(); ++i) assert(!crashcut_reached(promise(i)));
  printf("%u keys\n", found);
}
