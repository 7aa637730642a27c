/* Saved by rename, but nothing syncs the rename itself: said, and still the old text.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,old! | -,new! | saved,old! | saved,new!
 * recoveries: 4
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  put_synced("tmp", "new!");
  must(rename("tmp", "foo"));
  crashcut_mark("saved");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("saved");
  show_text("foo");
  assert(!said || holds("foo", "new!"));
}
