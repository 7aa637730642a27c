/* fsync covers the file, whichever descriptor wrote it: here one that was closed long ago, and the syncing one
 * cannot write.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,old! | -,new! | said,new!
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  int foo = open_to("foo", O_WRONLY);
  pwrite_text(foo, "new!", 0);
  must(close(foo));
  sync_name("foo");
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_text("foo");
  assert(!said || holds("foo", "new!"));
}
