/* A plain write to one block, then an O_SYNC write to another: O_SYNC syncs its own range (generic_write_sync), so
 * the plain one may still be missing. The paper has it sync the whole file (2.4.3); one journal brings both.
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,{old1,new1}{old2,new2} | said,{old1,new1}new2
 * recoveries: 6
 * violation: yes
 * run: --profile paper --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,{old1,new1}{old2,new2} | said,new1new2
 * recoveries: 5
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: -,old1old2 | -,new1old2 | -,new1new2 | said,new1new2
 * recoveries: 4
 */
#include "litmus.h"

int main(void) {
  put("foo", "old1old2");
  crashcut_barrier();
  pwrite_text(open_to("foo", O_WRONLY), "new1", 0);
  pwrite_text(open_to("foo", O_WRONLY | O_SYNC), "new2", 4);
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_text("foo");
  assert(!said || holds("foo", "new1new2"));
}
