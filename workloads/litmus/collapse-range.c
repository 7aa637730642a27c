/* A block is cut out of the middle: one transaction. (The paper knows no such call.)
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: AAAABBBBCCCC | AAAACCCC
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("foo", "AAAABBBBCCCC");
  crashcut_barrier();
  must(fallocate(open_to("foo", O_RDWR), FALLOC_FL_COLLAPSE_RANGE, 4, 4));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
