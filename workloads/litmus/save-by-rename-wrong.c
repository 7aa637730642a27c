/* The same without fsync. auto_da_alloc (ext4, ordered) grows the file before the rename and so leaves NULs instead
 * of an empty file; with dioread_lock or nodelalloc the commit waits for the data and the save is safe by luck.
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: old! | "" | new!
 * recoveries: 3
 * violation: yes
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data ordered -o noauto_da_alloc --sector 4 --block 4
 * outcomes: old! | "" | .... | new!
 * recoveries: 4
 * violation: yes
 * run: --profile ext4 --data writeback --sector 4 --block 4
 * outcomes: old! | "" | .... | new!
 * recoveries: 5
 * violation: yes
 * run: --profile ext4 --data ordered --sector 4 --block 4
 * outcomes: old! | .... | new!
 * recoveries: 3
 * violation: yes
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * run: --profile ext4 --data ordered -o {dioread_lock,nodelalloc} --sector 4 --block 4
 * outcomes: old! | new!
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  put("foo.tmp", "new!");
  must(rename("foo.tmp", "foo"));
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(holds("foo", "old!") || holds("foo", "new!"));
}
