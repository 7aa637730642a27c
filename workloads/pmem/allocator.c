/* A small allocator: blocks of one line, a bit each that says whether it is in use, and a table that points to blocks.
 * A block's bit is durable before the table points to the block. Recovery frees what the table does not reach, then
 * allocates again: it must never be given a block that is in use.
 *
 * MISTAKE_CONSTRUCTOR  the block is not flushed
 * MISTAKE_ORDER        the table is durable before the bit
 * MISTAKE_VOLATILE     the bits are in ordinary memory, and recovery trusts them */
#include "pmem.h"

enum { kBlocks = 4096, kWords = kBlocks / 64 };

struct block {
  uint64_t key, value;
  char pad[kLineBytes - 16];
};
struct bits {
  volatile uint64_t words[kWords];
};

static struct block* the_blocks(void) {
  static struct block* blocks;
  if (blocks == NULL) blocks = (struct block*)crashcut_pmem("blocks", kBlocks * sizeof(struct block));
  return blocks;
}
static struct block* volatile* the_table(void) {
  static struct block* volatile* table;
  if (table == NULL) table = (struct block* volatile*)crashcut_pmem("table", kBlocks * sizeof(struct block*));
  return table;
}
static struct bits* the_bits(void) {
#ifdef MISTAKE_VOLATILE
  static struct bits bits;
  return &bits;
#else
  static struct bits* bits;
  if (bits == NULL) bits = (struct bits*)crashcut_pmem("bits", sizeof(struct bits));
  return bits;
#endif
}

static void set_bit(unsigned i, int is_used) {
  volatile uint64_t* const word = &the_bits()->words[i / 64];
  const uint64_t bit = 1ULL << i % 64;
  *word = is_used ? *word | bit : *word & ~bit;
#ifdef MISTAKE_ORDER
  (void)word; /* flushed by nobody */
#else
  persist(word, 8);
#endif
}

static struct block* allocate_block(void) {
  for (unsigned i = 0; i < kBlocks; ++i) {
    if ((the_bits()->words[i / 64] >> i % 64 & 1) != 0) continue;
    set_bit(i, 1);
    return &the_blocks()[i];
  }
  abort();
}

int main(int argc, char** argv) {
  const unsigned count = begin(argc, argv);
  for (unsigned i = 0; i < count; ++i) {
    struct block* block = allocate_block();
    block->key = key_of(i);
    block->value = value_of(block->key);
#ifndef MISTAKE_CONSTRUCTOR
    persist(block, sizeof *block);
#endif
    the_table()[i] = block;
    persist(&the_table()[i], 8);
    crashcut_mark(promise(i));
  }
  return 0;
}

/* Frees the blocks that were allocated and are in no table. */
static void collect(unsigned found) {
  static char is_reached[kBlocks];
  for (unsigned i = 0; i < found; ++i) is_reached[the_table()[i] - the_blocks()] = 1;
  for (unsigned i = 0; i <= *kept_count() && i < kBlocks; ++i) {
    if (!is_reached[i] && (the_bits()->words[i / 64] >> i % 64 & 1) != 0) set_bit(i, 0);
  }
}

void crashcut_recover(void) {
  unsigned found = 0;
  while (found < *kept_count() && the_table()[found] != NULL) ++found;
  for (unsigned i = found; i < *kept_count(); ++i) assert(!crashcut_reached(promise(i)));
  collect(found);
  struct block* fresh = allocate_block();
  for (unsigned i = 0; i < found; ++i) assert(the_table()[i] != fresh);
  for (unsigned i = 0; i < found; ++i) {
    const struct block* block = the_table()[i];
    assert(block->key == key_of(i) && block->value == value_of(block->key));
  }
  printf("%u blocks\n", found);
}
