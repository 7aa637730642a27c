/* An overwrite in a block that is then cut in the middle. ext4_setattr journals the size in one handle,
 * ext4_truncate zeroes the rest of the block in another and only that one binds the block's data to its
 * transaction: a commit between the two leaves the short file with the old byte, in the ordered mode too. The
 * paper's ordered mode has all data before the size.
 * run: --profile ext4 --data {ordered,writeback} --sector 1 --block 4
 * outcomes: abcd | Xbcd | Xb.d | Xb.. | ab | Xb
 * recoveries: 6
 * run: --profile paper --data ordered --sector 1 --block 4
 * run: --profile {paper,ext4} --data journal --sector 1 --block 4
 * outcomes: abcd | Xbcd | Xb
 * recoveries: 3
 * run: --profile paper --data writeback --sector 1 --block 4
 * outcomes: {a,X}bcd | {a,X}b
 * recoveries: 4
 */
#include "litmus.h"

int main(void) {
  put("foo", "abcd");
  crashcut_barrier();
  int foo = open_to("foo", O_WRONLY);
  pwrite_text(foo, "X", 0);
  must(ftruncate(foo, 2));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
