/* O_DIRECT passes the page cache, not the drive's cache: without a sync it promises nothing.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,old! | -,new! | said,old! | said,new!
 * recoveries: 4
 * violation: yes
 */
#include "litmus.h"

static const char text[] __attribute__((aligned(4))) = "new!";

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  must(pwrite(open_to("foo", O_WRONLY | O_DIRECT), text, 4, 0));
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_text("foo");
  assert(!said || holds("foo", "new!"));
}
