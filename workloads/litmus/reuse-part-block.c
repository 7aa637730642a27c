/* A new block is written to the disk as a whole, also the sectors that nobody wrote to: one byte at offset 3 of b
 * leaves NULs before and after it in the place of a's block, sector by sector from its start.
 * run: --profile {paper,ext4} --data {ordered,journal} --sector 2 --block 6
 * run: --profile paper --data writeback --sector 2 --block 6
 * outcomes: "" | abcdef
 * recoveries: 2
 * run: --profile ext4 --data writeback --sector 2 --block 6
 * outcomes: "" | ...X.. | ...Xef | ..cdef | abcdef
 * recoveries: 5
 */
#include "litmus.h"

int main(void) {
  put("a", "abcdef");
  crashcut_barrier();
  must(ftruncate(open_to("a", O_WRONLY), 0));
  pwrite_text(open_to("b", O_WRONLY | O_CREAT), "X", 3);
  return 0;
}

void crashcut_recover(void) { show_text("a"); }
