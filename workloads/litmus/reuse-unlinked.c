/* The right twin of reuse-unlinked-wrong: the unlink is durable before anything is written that could reuse the block.
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: -,"" | -,- | -,new! | old!,-
 * recoveries: 4
 * run: --profile {paper,ext4} --data writeback --sector 4 --block 4
 * run: --profile ext4 --data ordered --sector 4 --block 4
 * outcomes: -,"" | -,- | -,.... | -,new! | old!,-
 * recoveries: 5
 */
#include "litmus.h"

int main(void) {
  put("a", "old!");
  crashcut_barrier();
  must(unlink("a"));
  sync_name(".");
  put_synced("b", "new!");
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  show_text("b");
  assert(!exists("a") || holds("a", "old!"));
}
