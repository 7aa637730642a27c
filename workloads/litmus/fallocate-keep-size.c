/* Space preallocated behind the end changes nothing that shows; a write into it grows the file like any other: the
 * blocks are unwritten, so ext4 converts them after the data (ext4_da_write_end leaves i_disksize alone where the
 * buffer is unwritten).
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: "" | data
 * recoveries: 2
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: "" | .... | data
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  int foo = (int)must(creat("foo", 0644));
  crashcut_barrier();
  must(fallocate(foo, FALLOC_FL_KEEP_SIZE, 0, 8));
  write_text(foo, "data");
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
