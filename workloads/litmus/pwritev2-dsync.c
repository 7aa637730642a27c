/* RWF_DSYNC makes one write of a plain descriptor durable.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,old! | -,new! | said,new!
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  struct iovec piece = {"new!", 4};
  must(pwritev2(open_to("foo", O_WRONLY), &piece, 1, 0, RWF_DSYNC));
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_text("foo");
  assert(!said || holds("foo", "new!"));
}
