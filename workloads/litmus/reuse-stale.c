/* The other direction: where metadata does not wait for data (nodelalloc, dioread_lock), a new file whose data has not
 * arrived shows what the freed block held. With unwritten extents, the default, it shows NULs.
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: - | synced,"" | synced,new!
 * recoveries: 5
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: - | synced,new!
 * recoveries: 4
 * run: --profile {paper,ext4} --data writeback --sector 4 --block 4
 * run: --profile ext4 --data ordered --sector 4 --block 4
 * outcomes: - | synced,"" | synced,.... | synced,new!
 * recoveries: 7
 * run: --profile ext4 --data writeback -o nodelalloc --sector 4 --block 4
 * outcomes: - | synced,.... | synced,new! | synced,old!
 * recoveries: 8
 * violation: yes
 * run: --profile ext4 --data writeback -o dioread_lock --sector 4 --block 4
 * outcomes: - | synced,"" | synced,.... | synced,new! | synced,old!
 * recoveries: 9
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  put("secret", "old!");
  crashcut_barrier();
  must(unlink("secret"));
  put("b", "new!");
  sync_name(".");
  crashcut_mark("synced");
  return 0;
}

void crashcut_recover(void) {
  if (show_mark("synced")) show_text("b");
  assert(!holds("b", "old!"));
}
