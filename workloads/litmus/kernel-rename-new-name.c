/* Renamed to a name that was free, without fsync: auto_da_alloc looks at replaced files only (ext4_rename:
 * new.inode), so the rename overtakes the allocation. NULs were not seen here, but the flusher may allocate at any
 * time, and the journal commit between allocation and conversion, as in kernel-rename-over. With nodelalloc the
 * write itself allocates, ahead of the rename; with data=journal too.
 * run: --profile ext4 --data {ordered,writeback} --sector 4096 --block 4096
 * run: --profile ext4 --data ordered -o noauto_da_alloc --sector 4096 --block 4096
 * outcomes: - | "" | 0 | n
 * recoveries: 4
 * run: --profile ext4 --data ordered -o nodelalloc --sector 4096 --block 4096
 * run: --profile ext4 --data journal --sector 4096 --block 4096
 * outcomes: - | n
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  crashcut_barrier();
  write_blocks(open_to("tmp", O_WRONLY | O_CREAT), "n");
  must(rename("tmp", "foo"));
  return 0;
}

void crashcut_recover(void) { show_blocks("foo"); }
