/* A new file whose writeback was started and not waited for: allocated and grown in one transaction, the data out
 * later, converted in another (ext4_end_io): a commit in between shows NULs. nodelalloc was not run on the kernel;
 * there the write allocates, after its data.
 * run: --profile ext4 --data {ordered,writeback} --sector 4096 --block 4096
 * run: --profile ext4 --data ordered -o noauto_da_alloc --sector 4096 --block 4096
 * outcomes: - | "" | 0 | n
 * recoveries: 4
 * run: --profile ext4 --data ordered -o nodelalloc --sector 4096 --block 4096
 * run: --profile ext4 --data journal --sector 4096 --block 4096
 * outcomes: - | "" | n
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  crashcut_barrier();
  int foo = open_to("foo", O_WRONLY | O_CREAT);
  write_blocks(foo, "n");
  must(sync_file_range(foo, 0, 0, SYNC_FILE_RANGE_WRITE));
  return 0;
}

void crashcut_recover(void) { show_blocks("foo"); }
