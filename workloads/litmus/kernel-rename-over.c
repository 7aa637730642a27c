/* Replace by rename without fsync, as the kernel was seen to leave it. auto_da_alloc starts writeback before the
 * rename (ext4_rename: ext4_alloc_da_blocks), which allocates unwritten blocks and grows the size in the journal
 * ahead of the rename, and does not wait for the data or for the conversion (ext4_end_io): NULs show, an empty file
 * does not. Without it, and with data=writeback, the rename overtakes the allocation. NULs were not seen with
 * noauto_da_alloc, but the flusher may begin at any time. With nodelalloc or dioread_lock the blocks are allocated
 * as written and the commit waits for the data; data=journal has it in the same transactions.
 * run: --profile ext4 --data ordered --sector 4096 --block 4096
 * outcomes: o | 0 | n
 * recoveries: 3
 * violation: yes
 * run: --profile ext4 --data ordered -o noauto_da_alloc --sector 4096 --block 4096
 * run: --profile ext4 --data writeback --sector 4096 --block 4096
 * outcomes: o | "" | 0 | n
 * recoveries: 4
 * violation: yes
 * run: --profile ext4 --data ordered -o nodelalloc --sector 4096 --block 4096
 * run: --profile ext4 --data ordered -o dioread_lock --sector 4096 --block 4096
 * run: --profile ext4 --data journal --sector 4096 --block 4096
 * outcomes: o | n
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  write_blocks(open_to("foo", O_WRONLY | O_CREAT), "o");
  crashcut_barrier();
  write_blocks(open_to("tmp", O_WRONLY | O_CREAT), "n");
  must(rename("tmp", "foo"));
  return 0;
}

void crashcut_recover(void) {
  char byte = 0;
  int foo = open_to("foo", O_RDONLY);
  show_blocks("foo");
  assert(pread(foo, &byte, 1, 0) == 1 && byte != 0);
}
