/* Cut to nothing and written again. ext4 takes a fresh block, NULs before its data is out; in data=writeback perhaps
 * the one that was just freed, so that the new bytes are there before the truncation. In the paper the block
 * is the old one: its new bytes can be there before the truncation, and without the ordered rule its old ones after
 * it.
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: old! | "" | new!
 * recoveries: 3
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: old! | "" | new!
 * recoveries: 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: old! | "" | new!
 * recoveries: 5
 * run: --profile ext4 --data ordered --sector 4 --block 4
 * outcomes: old! | "" | .... | new!
 * recoveries: 4
 * run: --profile ext4 --data writeback --sector 4 --block 4
 * outcomes: old! | "" | .... | new!
 * recoveries: 5
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  int foo = open_to("foo", O_WRONLY);
  must(ftruncate(foo, 0));
  write_text(foo, "new!");
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
