/* The extendible hash of workloads/pmem/, shared by machines under one lock. An owner that dies in a split leaves a
 * directory of which a part leads to the old segment: an insertion there would be lost for the other part. So the next
 * owner makes a new table of all that a search finds.
 *
 * MISTAKE_CONSTRUCTOR, MISTAKE_DIRECTORY, MISTAKE_SPLIT as there
 * MISTAKE_NO_REPAIR        the next owner inserts into what the dead one left
 * MISTAKE_REPAIR_AT_START  ... unless it had not used the table before
 * MISTAKE_SLOT             as there. Alone it is none here: the next owner drops a key without a value. Without repair
 *                          the key that is put again stays behind the half one */
#include "index.h"
/**/
#include "../pmem/extendible_hash.c"

static void put(uint64_t key) { insert(the_table(), key); }
static uint64_t get(uint64_t key) {
  const struct slot* slot = find(the_table(), key);
  return slot == NULL ? 0 : slot->value;
}
static void repair(void) {
  struct table* fresh = (struct table*)allocate(the_pool(), sizeof *fresh);
  for (unsigned i = 0; i < *kept_count(); ++i) {
    if (get(key_of(i)) != 0) insert(fresh, key_of(i));
  }
  the_table()->directory = fresh->directory;
  persist(&the_table()->directory, 8);
}

#include "index_main.h"
