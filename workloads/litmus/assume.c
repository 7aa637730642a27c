/* A recovery that does not want to know about crashes before the mark drops them; they count as recoveries, not as
 * outcomes.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: said,old! | said,new!
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
  crashcut_assume(crashcut_reached("said"));
  show_mark("said");
  show_text("foo");
}
