/* sync_file_range, even told to wait, writes pages and flushes no drive (its manual page says so): no promise.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,old! | -,new! | said,old! | said,new!
 * recoveries: 4
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  int foo = open_to("foo", O_WRONLY);
  pwrite_text(foo, "new!", 0);
  must(sync_file_range(foo, 0, 4, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER));
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_text("foo");
  assert(!said || holds("foo", "new!"));
}
