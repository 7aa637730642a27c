/* The name is taken again by a new file: never new bytes in the old file, nor old bytes in the new one.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: old! | - | "" | new!
 * recoveries: 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data ordered --sector 4 --block 4
 * outcomes: old! | - | "" | .... | new!
 * recoveries: 5
 * run: --profile ext4 --data writeback --sector 4 --block 4
 * outcomes: old! | - | "" | .... | new!
 * recoveries: 6
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  must(unlink("foo"));
  put("foo", "new!");
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
