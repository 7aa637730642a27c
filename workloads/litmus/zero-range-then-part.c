/* Twin of zero-range-then-write that writes a part of the block: all of the block is put out, NULs around the new byte
 * (ext4_block_write_begin), and they replace the old bytes under the old metadata too.
 * run: --profile ext4 --data {ordered,writeback} --sector 2 --block 4
 * run: --profile ext4 -o {nodelalloc,dioread_lock} --sector 2 --block 4
 * outcomes: {-,b},{oooo,.noo,.n..} | b,....
 * recoveries: 8
 * run: --profile {paper,ext4} --data journal --sector 2 --block 4
 * outcomes: -,oooo | b,{oooo,....,.n..}
 * recoveries: 4
 * run: --profile paper --data {ordered,writeback} --sector 2 --block 4
 * outcomes: {-,b},{oooo,..oo,....,.noo,.n..}
 * recoveries: 10
 */
#include "litmus.h"

int main(void) {
  put("foo", "oooo");
  crashcut_barrier();
  int foo = open_to("foo", O_RDWR);
  must(creat("b", 0644));
  must(fallocate(foo, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0, 4));
  pwrite_text(foo, "n", 1);
  must(fsync(foo));
  return 0;
}

void crashcut_recover(void) {
  show_name("b");
  show_text("foo");
}
