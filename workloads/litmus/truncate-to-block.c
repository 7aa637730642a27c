/* A file cut at a block's end: short or not, nothing between.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: abcdefgh | abcd
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("foo", "abcdefgh");
  crashcut_barrier();
  must(truncate("foo", 4));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
