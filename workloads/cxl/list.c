/* A sorted list without locks: keys are inserted by compare-and-swap and never removed. A node is durable before it is
 * linked, a link is durable before its key is promised. A thread that has seen a key makes the link durable itself
 * before it promises anything: a link that only its own machine has seen is lost with the machine.
 *
 * Arguments: keys a thread (1), threads a machine (1), "in-turn": a machine begins when the ones before it are gone.
 *
 * MISTAKE_NODE       the node is not flushed before it is linked
 * MISTAKE_LINK       the link is not flushed before the promise
 * MISTAKE_READER     a thread that finds a key does not flush the link
 * MISTAKE_HALF_LINK  the node is linked before it leads to the rest of the list */
#include "machines.h"

struct node {
  uint64_t key;
  struct node* next; /* atomic */
} __attribute__((aligned(64)));
struct line {
  volatile uint64_t value;
} __attribute__((aligned(64)));
struct list {
  struct node head;
  struct line promised[kMachinesMost][kThreadsMost]; /* of the thread's keys */
  struct line seen[kMachinesMost][kThreadsMost];     /* a key of another thread that this one has found */
};

static struct list* g_list;
static unsigned g_keys, g_threads;

static struct node* next_of(const struct node* node) { return __atomic_load_n(&node->next, __ATOMIC_ACQUIRE); }

/* The last node with a lower key, and what followed it. */
static struct node* place_of(uint64_t key, struct node** after) {
  struct node* before = &g_list->head;
  for (*after = next_of(before); *after != NULL && (*after)->key < key; *after = next_of(before)) before = *after;
  return before;
}

static void insert(uint64_t key) {
  struct node* node = (struct node*)allocate(the_pool(), sizeof *node);
  node->key = key;
  for (;;) {
    struct node* after;
    struct node* before = place_of(key, &after);
#ifndef MISTAKE_HALF_LINK
    __atomic_store_n(&node->next, after, __ATOMIC_RELAXED);
#endif
#ifndef MISTAKE_NODE
    persist(node, sizeof *node);
#endif
    if (!__atomic_compare_exchange_n(&before->next, &after, node, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) continue;
#ifdef MISTAKE_HALF_LINK
    __atomic_store_n(&node->next, after, __ATOMIC_RELEASE);
    persist(node, sizeof *node);
#endif
#ifndef MISTAKE_LINK
    persist(&before->next, 8);
#endif
    return;
  }
}

static int has(uint64_t key) {
  struct node* node;
  struct node* before = place_of(key, &node);
  if (node == NULL || node->key != key) return 0;
#ifndef MISTAKE_READER
  persist(&before->next, 8);
#endif
  return 1;
}

/* Keys of different threads lie between one another. Each one goes before those that its thread has put. */
static uint64_t key_number(int machine, unsigned thread, unsigned i) {
  const unsigned last_machine = kMachinesMost - 1;
  return 1 + (g_keys - 1 - i) * kMachinesMost * kThreadsMost + (last_machine - (unsigned)machine) * kThreadsMost +
         thread;
}

static void* insert_keys(void* number) {
  const unsigned thread = *(unsigned*)number, other = (thread + 1) % g_threads;
  const int machine = crashcut_machine();
  for (unsigned i = 0; i < g_keys; ++i) {
    insert(key_number(machine, thread, i));
    g_list->promised[machine][thread].value = i + 1;
    persist(&g_list->promised[machine][thread].value, 8);
  }
  if (other != thread && has(key_number(machine, other, 0))) {
    g_list->seen[machine][thread].value = 1;
    persist(&g_list->seen[machine][thread].value, 8);
  }
  return NULL;
}

static void check(int machine) {
  for (unsigned t = 0; t < g_threads; ++t) {
    for (unsigned i = 0; i < g_list->promised[machine][t].value; ++i) assert(has(key_number(machine, t, i)));
    if (g_list->seen[machine][t].value != 0) assert(has(key_number(machine, (t + 1) % g_threads, 0)));
  }
}

int main(int argc, char** argv) {
  const int machine = crashcut_machine(), is_in_turn = argc > 3 && strcmp(argv[3], "in-turn") == 0;
  g_keys = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
  g_threads = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
  g_list = (struct list*)crashcut_cxl("list", sizeof(struct list));
  the_pool(); /* pointers lead there */
  for (int m = 0; is_in_turn && m < machine; ++m) crashcut_wait_machine(m);
  run_threads(g_threads, insert_keys);
  check(machine);
  for (int m = 0; m < machine; ++m) {
    crashcut_wait_machine(m);
    check(m);
  }
  return 0;
}
