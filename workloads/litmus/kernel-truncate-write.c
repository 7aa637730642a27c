/* Truncated on open, written, closed, no fsync. Two blocks, so that mixes show. The old blocks go with the
 * truncation; the new ones are allocated by writeback, which may take the file in pieces
 * (mpage_prepare_extent_to_map): a size of one block shows, and each block is converted after its own data.
 * auto_da_alloc starts that on close and waits for nothing, so it makes no state impossible here. Mixes were seen
 * with data=writeback only; with dioread_nolock nothing but the shape of the bios keeps them from data=ordered.
 * nodelalloc allocates block by block, ordered data first.
 * run: --profile ext4 --data ordered --sector 4096 --block 4096
 * run: --profile ext4 --data ordered -o noauto_da_alloc --sector 4096 --block 4096
 * outcomes: oo | "" | {0,n} | {0,n}{0,n}
 * recoveries: 8
 * run: --profile ext4 --data writeback --sector 4096 --block 4096
 * outcomes: oo | "" | 0 | n | 00 | 0n | n0 | nn | no | on
 * recoveries: 11
 * run: --profile ext4 --data ordered -o nodelalloc --sector 4096 --block 4096
 * run: --profile ext4 --data journal --sector 4096 --block 4096
 * outcomes: oo | "" | n | nn
 * recoveries: 4
 */
#include "litmus.h"

int main(void) {
  int foo = open_to("foo", O_WRONLY | O_CREAT);
  write_blocks(foo, "oo");
  crashcut_barrier();
  foo = open_to("foo", O_WRONLY | O_TRUNC);
  write_blocks(foo, "nn");
  must(close(foo));
  return 0;
}

void crashcut_recover(void) { show_blocks("foo"); }
