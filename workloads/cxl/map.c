/* A hash map under one lock, with repair by the next owner if the owner's machine failed. A bucket counts its slots; a
 * slot is durable before it is counted. The map counts all keys. A full bucket makes the map grow: the larger table is
 * durable before the map leads to it.
 *
 * Arguments: keys a machine (2), threads a machine (1), "in-turn": a machine begins when the ones before it are gone.
 *
 * MISTAKE_SLOT             the slot is not flushed
 * MISTAKE_TABLE            the larger table is not flushed
 * MISTAKE_COUNT            the bucket's count is not flushed
 * MISTAKE_NO_REPAIR        the next owner trusts the count of all keys that the dead one left
 * MISTAKE_REPAIR_AT_START  ... unless it had not used the map before
 * MISTAKE_DIVIDE           a table that is left for a larger one has no buckets any more, and repair divides by them
 * MISTAKE_BOUNDS           a search looks at slots that the bucket does not count */
#include "machines.h"

enum { kSlotsOfBucket = 2 };

struct slot {
  volatile uint64_t key, value;
};
struct bucket {
  volatile uint64_t used __attribute__((aligned(64)));
  struct slot slots[kSlotsOfBucket] __attribute__((aligned(64))); /* in another line than their count */
};
struct table {
  volatile uint64_t buckets;
  struct bucket all[] __attribute__((aligned(64)));
};
struct map {
  struct guard guard;
  struct table* volatile table __attribute__((aligned(64)));
  volatile uint64_t keys __attribute__((aligned(64)));
  volatile uint64_t keys_a_bucket;
  volatile uint64_t promised[kMachinesMost][kThreadsMost][kLineBytes / 8] __attribute__((aligned(64)));
};

static struct map* g_map;
static unsigned g_keys, g_threads;

static struct map* the_map(void) { return (struct map*)crashcut_cxl("map", sizeof(struct map)); }

static struct table* make_table(uint64_t buckets) {
  const size_t bytes = sizeof(struct table) + buckets * sizeof(struct bucket);
  struct table* table = (struct table*)allocate(the_pool(), bytes);
  table->buckets = buckets;
  return table;
}
static void persist_table(const struct table* table) {
  persist(table, sizeof *table + table->buckets * sizeof(struct bucket));
}

void crashcut_setup(void) {
  struct map* map = the_map();
  make_guard(&map->guard);
  map->table = make_table(1);
  persist_table(map->table);
  persist(&map->table, 8);
}

static struct bucket* bucket_of(struct table* table, uint64_t key) { return &table->all[key % table->buckets]; }

static uint64_t find_in(struct table* table, uint64_t key) {
  const struct bucket* bucket = bucket_of(table, key);
#ifdef MISTAKE_BOUNDS
  const uint64_t used = kSlotsOfBucket;
#else
  const uint64_t used = bucket->used;
#endif
  for (uint64_t i = 0; i < used; ++i) {
    if (bucket->slots[i].key == key) return bucket->slots[i].value;
  }
  return 0;
}

/* False: the bucket is full. */
static int put_in(struct table* table, uint64_t key) {
  struct bucket* bucket = bucket_of(table, key);
  const uint64_t at = bucket->used;
  if (at == kSlotsOfBucket) return 0;
  bucket->slots[at].key = key;
  bucket->slots[at].value = value_of(key);
#ifndef MISTAKE_SLOT
  persist(&bucket->slots[at], sizeof(struct slot));
#endif
  bucket->used = at + 1;
#ifndef MISTAKE_COUNT
  persist(&bucket->used, 8);
#endif
  return 1;
}

static int copy_all(const struct table* from, struct table* to) {
  for (uint64_t b = 0; b < from->buckets; ++b) {
    for (uint64_t i = 0; i < from->all[b].used; ++i) {
      if (!put_in(to, from->all[b].slots[i].key)) return 0;
    }
  }
  return 1;
}

static void grow(struct map* map) {
  struct table* old = map->table;
  struct table* larger = make_table(old->buckets * 2 + 1);
  while (!copy_all(old, larger)) larger = make_table(larger->buckets * 2 + 1);
#ifndef MISTAKE_TABLE
  persist_table(larger);
#endif
#ifdef MISTAKE_DIVIDE
  old->buckets = 0;
  persist(&old->buckets, 8);
#endif
  map->table = larger;
  persist(&map->table, 8);
}

/* How many slots are used. */
static uint64_t count_slots(void) {
  struct table* table = g_map->table;
  uint64_t count = 0;
  for (uint64_t b = 0; b < table->buckets; ++b) count += table->all[b].used;
  return count;
}

/* What is derived from the buckets: how many keys there are, and how many a bucket has. */
static void count_keys(void) {
  g_map->keys = count_slots();
  g_map->keys_a_bucket = g_map->keys / g_map->table->buckets;
  persist(&g_map->keys, 16);
}

/* All else is right whenever the owner dies. */
static void repair(void) { count_keys(); }

static void put(uint64_t key) {
  enter(&g_map->guard, repair);
  while (!put_in(g_map->table, key)) grow(g_map);
  g_map->keys = g_map->keys + 1;
  persist(&g_map->keys, 8);
  assert(g_map->keys == count_slots());
  leave(&g_map->guard);
}
static uint64_t get(uint64_t key) {
  enter(&g_map->guard, repair);
  const uint64_t value = find_in(g_map->table, key);
  leave(&g_map->guard);
  return value;
}

static uint64_t key_number(int machine, unsigned thread, unsigned i) {
  return key_of(((unsigned)machine * kThreadsMost + thread) * 100 + i);
}

/* A key that nobody else puts, in the same bucket as this one. */
static uint64_t extra_key(int machine, unsigned thread, uint64_t beside) {
  return beside + g_map->table->buckets * 10007 * (1 + (unsigned)machine * kThreadsMost + thread);
}

static void* put_keys(void* number) {
  const unsigned thread = *(unsigned*)number;
  for (unsigned i = 0; i < g_keys; ++i) {
    put(key_number(crashcut_machine(), thread, i));
    volatile uint64_t* promised = &g_map->promised[crashcut_machine()][thread][0];
    *promised = i + 1;
    persist(promised, 8);
  }
  return NULL;
}

/* What the machine had promised is there. The key that it may not have come to stays as it was seen. */
static void check(int machine) {
  for (unsigned t = 0; t < g_threads; ++t) {
    const unsigned promised = (unsigned)g_map->promised[machine][t][0];
    for (unsigned i = 0; i < promised; ++i)
      assert(get(key_number(machine, t, i)) == value_of(key_number(machine, t, i)));
    const uint64_t last = key_number(machine, t, promised), seen = promised < g_keys ? get(last) : 0;
    put(extra_key(machine, t, last));
    if (promised < g_keys) assert(get(last) == seen);
  }
}

int main(int argc, char** argv) {
  const int machine = crashcut_machine(), is_in_turn = argc > 3 && strcmp(argv[3], "in-turn") == 0;
  g_keys = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2;
  g_threads = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
  g_map = the_map();
  the_pool(); /* pointers lead there */
  if (crashcut_machines() == 1) crashcut_setup();
  if (!is_in_turn) run_threads(g_threads, put_keys);
  for (int m = 0; m < machine; ++m) {
    crashcut_wait_machine(m);
    check(m);
  }
  if (is_in_turn) run_threads(g_threads, put_keys);
  if (crashcut_machines() == 1) check(0);
  return 0;
}
