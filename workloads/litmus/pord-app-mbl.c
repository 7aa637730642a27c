/* An append that begins in a part-filled block. Without delayed allocation the paper has every byte out before the
 * size; with it the size first grows over zeros to the block's end. The kernel journals a size that grows in a
 * written block in the write itself, delayed allocation or not (ext4_da_write_end, ext4_write_end), so zeros can
 * show there, also below the size that the next block's allocation brings. In one journal data and size are one.
 * run: --profile paper --data ordered -o nodelalloc --sector 1 --block 2
 * outcomes: 3,1 | 4,12 | 5,12
 * recoveries: 3
 * paper-count: 3
 * run: --profile paper --data ordered --sector 1 --block 2
 * outcomes: 3,1 | 4,1. | 4,12 | 5,12
 * recoveries: 4
 * violation: yes
 * run: --profile paper --data writeback --sector 1 --block 2
 * run: --profile ext4 --data {ordered,writeback} -o {delalloc,nodelalloc} --sector 1 --block 2
 * outcomes: 3,1 | {4,5},{1.,12}
 * recoveries: 5
 * violation: yes
 * run: --profile {paper,ext4} --data journal --sector 1 --block 2
 * outcomes: 3,1 | 4,12 | 5,12
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "111");
  crashcut_barrier();
  write_text(open_to("foo", O_WRONLY | O_APPEND), "22");
  return 0;
}

void crashcut_recover(void) {
  char text[TEXT_MOST + 1];
  show_size("foo");
  show("%s", read_bytes("foo", 2, 2, text));
  assert(strcmp(text, "1.") != 0);
}
