/* The same as zero-range-then-write with O_DIRECT: the data is on the disk when the call returns, in the block that
 * ZERO_RANGE left in place, and the mark that it is written comes after it.
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * run: --profile ext4 -o {nodelalloc,dioread_lock} --sector 4 --block 4
 * outcomes: {-,b},{oooo,nnnn} | b,....
 * recoveries: 6
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: -,oooo | b,{oooo,....,nnnn}
 * recoveries: 4
 * run: --profile paper --data {ordered,writeback} --sector 4 --block 4
 * outcomes: {-,b},{oooo,....,nnnn}
 * recoveries: 6
 */
#include "litmus.h"

static const char text[] __attribute__((aligned(4))) = "nnnn";

int main(void) {
  put("foo", "oooo");
  crashcut_barrier();
  int foo = open_to("foo", O_RDWR);
  must(creat("b", 0644));
  must(fallocate(foo, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0, 4));
  must(pwrite(open_to("foo", O_WRONLY | O_DIRECT), text, 4, 0));
  must(fsync(foo));
  return 0;
}

void crashcut_recover(void) {
  show_name("b");
  show_text("foo");
}
