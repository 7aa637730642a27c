/* An extendible hash: a directory of pointers to segments, by the key's upper hash bits. A full segment splits into two
 * new ones that are durable before the directory points to them; a directory that is too small is copied to one of
 * twice the size, which is durable before the root points to it. A slot's key is stored last: 0 is an empty slot.
 *
 * MISTAKE_CONSTRUCTOR  the first segments are not flushed
 * MISTAKE_DIRECTORY    the directory is flushed instead of the root that points to it
 * MISTAKE_SLOT         the key is stored before the value
 * MISTAKE_SPLIT        the directory points to a new segment before that is durable */
#include "pmem.h"

enum { kSlots = 3 };

struct slot {
  volatile uint64_t key, value;
};
struct segment {
  uint64_t depth; /* how many upper bits its keys share */
  uint64_t pad;
  struct slot slots[kSlots];
};
struct directory {
  uint64_t depth; /* 1 << depth segments */
  struct segment* volatile segments[];
};
struct table {
  struct directory* volatile directory;
};

static struct table* the_table(void) {
  static struct table* table;
  if (table == NULL) table = (struct table*)crashcut_pmem("table", sizeof(struct table));
  return table;
}
static uint64_t hash_of(uint64_t key) { return key * 0x9e3779b97f4a7c15ULL; }
static uint64_t index_of(const struct directory* directory, uint64_t key) {
  return directory->depth == 0 ? 0 : hash_of(key) >> (64 - directory->depth);
}
static size_t bytes_of(uint64_t depth) { return sizeof(struct directory) + (sizeof(void*) << depth); }

static struct segment* make_segment(uint64_t depth) {
  struct segment* segment = (struct segment*)allocate(the_pool(), sizeof *segment);
  segment->depth = depth;
  return segment;
}

static void set_directory(struct table* table, struct directory* directory) {
  persist(directory, bytes_of(directory->depth));
  table->directory = directory;
#ifdef MISTAKE_DIRECTORY
  persist(directory, bytes_of(directory->depth));
#else
  persist(&table->directory, 8);
#endif
}

static void create(struct table* table) {
  struct directory* directory = (struct directory*)allocate(the_pool(), bytes_of(1));
  directory->depth = 1;
  for (int i = 0; i < 2; ++i) {
    directory->segments[i] = make_segment(1);
#ifndef MISTAKE_CONSTRUCTOR
    persist(directory->segments[i], sizeof(struct segment));
#endif
  }
  set_directory(table, directory);
}

/* False: the segment is full. */
static int insert_here(struct segment* segment, uint64_t key, int is_shown) {
  for (int i = 0; i < kSlots; ++i) {
    struct slot* slot = &segment->slots[i];
    if (slot->key != 0) continue;
#ifdef MISTAKE_SLOT
    slot->key = key;
    slot->value = value_of(key);
#else
    slot->value = value_of(key);
    slot->key = key;
#endif
    if (is_shown) persist(slot, sizeof *slot);
    return 1;
  }
  return 0;
}

static void double_directory(struct table* table) {
  const struct directory* old = table->directory;
  struct directory* directory = (struct directory*)allocate(the_pool(), bytes_of(old->depth + 1));
  directory->depth = old->depth + 1;
  for (uint64_t i = 0; i < 2ULL << old->depth; ++i) directory->segments[i] = old->segments[i / 2];
  set_directory(table, directory);
}

/* The full segment's keys in two new ones. Each pointer of the directory changes alone: until the last one has, some
 * lead to the old segment, which still has all of its keys. */
static void split(struct table* table, uint64_t key) {
  struct segment* old = table->directory->segments[index_of(table->directory, key)];
  if (old->depth == table->directory->depth) double_directory(table);
  struct directory* directory = table->directory;
  struct segment* halves[2] = {make_segment(old->depth + 1), make_segment(old->depth + 1)};
  for (int i = 0; i < kSlots; ++i) {
    const uint64_t moved = old->slots[i].key;
    insert_here(halves[hash_of(moved) >> (63 - old->depth) & 1], moved, 0);
  }
#ifndef MISTAKE_SPLIT
  for (int i = 0; i < 2; ++i) persist(halves[i], sizeof *halves[i]);
#endif
  const uint64_t span = 1ULL << (directory->depth - old->depth); /* pointers to the old segment */
  const uint64_t first = index_of(directory, key) / span * span;
  for (uint64_t i = 0; i < span; ++i) {
    directory->segments[first + i] = halves[i >= span / 2];
    persist(&directory->segments[first + i], 8);
  }
#ifdef MISTAKE_SPLIT
  for (int i = 0; i < 2; ++i) persist(halves[i], sizeof *halves[i]);
#endif
}

static void insert(struct table* table, uint64_t key) {
  if (table->directory == NULL) create(table);
  while (!insert_here(table->directory->segments[index_of(table->directory, key)], key, 1)) split(table, key);
}

static const struct slot* find(const struct table* table, uint64_t key) {
  const struct directory* directory = table->directory;
  if (directory == NULL) return NULL;
  assert(is_in_pool(the_pool(), directory) && directory->depth >= 1 && directory->depth < 32);
  const struct segment* segment = directory->segments[index_of(directory, key)];
  assert(is_in_pool(the_pool(), segment) && segment->depth >= 1 && segment->depth <= directory->depth);
  for (int i = 0; i < kSlots; ++i) {
    if (segment->slots[i].key == key) return &segment->slots[i];
  }
  return NULL;
}

int main(int argc, char** argv) {
  const unsigned count = begin(argc, argv);
  for (unsigned i = 0; i < count; ++i) {
    insert(the_table(), key_of(i));
    crashcut_mark(promise(i));
  }
  return 0;
}

void crashcut_recover(void) {
  unsigned found = 0, promised = 0;
  while (promised < *kept_count() && crashcut_reached(promise(promised))) ++promised;
  for (unsigned i = 0; i < *kept_count(); ++i) {
    const struct slot* slot = find(the_table(), key_of(i));
    const int is_there = slot != NULL;
    assert(!is_there || slot->value == value_of(key_of(i)));
    assert(is_there || i >= promised);
    assert(!is_there || i <= promised);
    found += (unsigned)is_there;
  }
  printf("%u keys\n", found);
}
