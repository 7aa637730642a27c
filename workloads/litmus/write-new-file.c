/* A new file of one block. The size comes after the data (the paper's ordered mode) or not (writeback); ext4 grows
 * the file over an unwritten block, which shows NULs until the data is out and the block is converted; one journal
 * has no such gap. With dioread_lock the block is allocated as written, after its data; with nodelalloc too, in the
 * write itself.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * run: --profile ext4 --data ordered -o {dioread_lock,nodelalloc} --sector 4 --block 4
 * outcomes: - | "" | new!
 * recoveries: 3
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: - | "" | .... | new!
 * recoveries: 4
 */
#include "litmus.h"

int main(void) {
  put("foo", "new!");
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
