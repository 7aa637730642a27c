/* Two blocks are freed and one is written: it is in the place of one of them or of none, never of both.
 * run: --profile {paper,ext4} --data {ordered,journal} --sector 4 --block 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: -,- | -,oldb | olda,oldb
 * recoveries: 3
 * run: --profile ext4 --data writeback --sector 4 --block 4
 * outcomes: -,- | -,new! | -,oldb | new!,oldb | olda,new! | olda,oldb
 * recoveries: 6
 */
#include "litmus.h"

int main(void) {
  put("a", "olda");
  put("b", "oldb");
  crashcut_barrier();
  must(unlink("a"));
  must(unlink("b"));
  put("c", "new!");
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  show_text("b");
  assert(!holds("a", "new!") || !holds("b", "new!"));
}
