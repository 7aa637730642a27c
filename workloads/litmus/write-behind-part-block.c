/* A write that begins behind the part-filled last block leaves that block alone, so the size does not grow over its
 * zeros first: the paper's isPreallocBlock (Fig. 7, line 4) is given the offset. Size 2 is never seen. Twin:
 * append-part-block.
 * run: --profile paper --data ordered --sector 1 --block 2
 * run: --profile paper --data ordered -o nodelalloc --sector 1 --block 2
 * run: --profile {paper,ext4} --data journal --sector 1 --block 2
 * run: --profile ext4 -o nodelalloc --data ordered --sector 1 --block 2
 * outcomes: 1 | 1..2
 * recoveries: 2
 * run: --profile paper --data writeback --sector 1 --block 2
 * run: --profile ext4 --data {ordered,writeback} --sector 1 --block 2
 * outcomes: 1 | 1..{.,2}
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "1");
  crashcut_barrier();
  pwrite_text(open_to("foo", O_WRONLY), "2", 3);
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
