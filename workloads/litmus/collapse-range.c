/* A block is cut out of the middle: one transaction. The paper knows no such call: there it is the last block moved
 * forward, zeros in its place, and a truncation, as if they had been written.
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: AAAABBBBCCCC | AAAACCCC
 * recoveries: 2
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: AAAA{BBBB,CCCC}{CCCC,....} | AAAACCCC
 * recoveries: 5
 * run: --profile paper --data journal --sector 4 --block 4
 * outcomes: AAAABBBBCCCC | AAAACCCCCCCC | AAAACCCC.... | AAAACCCC
 * recoveries: 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: AAAA{BBBB,CCCC}{CCCC,....} | AAAA{BBBB,CCCC}
 * recoveries: 6
 */
#include "litmus.h"

int main(void) {
  put("foo", "AAAABBBBCCCC");
  crashcut_barrier();
  must(fallocate(open_to("foo", O_RDWR), FALLOC_FL_COLLAPSE_RANGE, 4, 4));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
