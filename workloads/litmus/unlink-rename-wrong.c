/* The new text is synced, but the old file is unlinked before the rename: a crash between them leaves neither.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: old! | - | new!
 * recoveries: 3
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  put_synced("tmp", "new!");
  must(unlink("foo"));
  must(rename("tmp", "foo"));
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(exists("foo"));
}
