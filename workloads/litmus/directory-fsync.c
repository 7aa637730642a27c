/* Saved by rename, and the directory synced before it is said: whoever heard it finds the new text.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,old! | -,new! | saved,new!
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  put_synced("tmp", "new!");
  must(rename("tmp", "foo"));
  sync_name(".");
  crashcut_mark("saved");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("saved");
  show_text("foo");
  assert(!said || holds("foo", "new!"));
}
