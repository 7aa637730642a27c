/* A file is unlinked, and another one is written. In data=writeback the new file may get the block that was just freed
 * (ext4_mb_clear_bb frees it at once where ext4_should_writeback_data), and its data may be there before the journal
 * has the unlink: after the crash the old name shows the new bytes, and the new name is not there. Seen on 6.18.
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: -,"" | -,- | -,new! | old!,-
 * recoveries: 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data ordered --sector 4 --block 4
 * outcomes: -,"" | -,- | -,.... | -,new! | old!,-
 * recoveries: 5
 * run: --profile ext4 --data writeback --sector 4 --block 4
 * outcomes: -,"" | -,- | -,.... | -,new! | new!,- | old!,-
 * recoveries: 6
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  put("a", "old!");
  crashcut_barrier();
  must(unlink("a"));
  put_synced("b", "new!");
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  show_text("b");
  assert(!exists("a") || holds("a", "old!"));
}
