/* An overwrite changes no metadata but the mtime, and that not within one tick of the clock
 * (inode_update_timestamps), so fsync need not find the inode in the running transaction: another file's creation
 * is again not covered. In one journal it is.
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: {-,said},{-,b}
 * recoveries: 4
 * violation: yes
 * run: --profile paper --data {ordered,journal,writeback} --sector 4 --block 4
 * run: --profile ext4 --data journal --sector 4 --block 4
 * outcomes: -,- | -,b | said,b
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("a", "AAAA");
  crashcut_barrier();
  must(creat("b", 0644));
  int a = open_to("a", O_WRONLY);
  pwrite_text(a, "aaaa", 0);
  must(fsync(a));
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_name("b");
  assert(!said || exists("b"));
}
