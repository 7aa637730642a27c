/* fsync of a renamed file commits the rename: it changed the inode's ctime, so the inode is in that transaction.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,- | -,b | said,b
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("a", "A");
  crashcut_barrier();
  must(rename("a", "b"));
  must(fsync(open_to("b", O_RDONLY)));
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_name("b");
  assert(!said || exists("b"));
}
