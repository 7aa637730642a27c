/* A file cut inside a block. The kernel zeroes the rest of the block in the page cache (ext4_block_truncate_page),
 * and in the ordered mode writes it out before the commit: a crash in between shows the old size over zeros. The
 * size itself is journalled first (ext4_setattr), so where the zeros ride in the journal too they are never seen
 * without it. The paper leaves the block alone.
 * run: --profile paper --data {ordered,journal,writeback} --sector 1 --block 2
 * run: --profile ext4 --data journal --sector 1 --block 2
 * outcomes: abcd | a
 * recoveries: 2
 * run: --profile ext4 --data {ordered,writeback} --sector 1 --block 2
 * outcomes: abcd | a.cd | a
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "abcd");
  crashcut_barrier();
  must(truncate("foo", 1));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
