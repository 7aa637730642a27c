/* A mark comes before whatever is written after it: new bytes prove that it was reached.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,old! | said,old! | said,new!
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  crashcut_mark("said");
  pwrite_text(open_to("foo", O_WRONLY), "new!", 0);
  return 0;
}

void crashcut_recover(void) {
  show_mark("said");
  show_text("foo");
}
