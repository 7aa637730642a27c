/* ZERO_RANGE leaves a whole block where it lies and marks it unwritten (convert_initialized_extent), so what is written
 * there next lands in the same block: under the old metadata the new data shows, before "b" that was created first. In
 * data=journal the data waits for the commit.
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
 * run: --profile ext4 --data writeback -o dioread_lock --sector 4 --block 4
 * outcomes: {-,b},{oooo,nnnn} | b,....
 * recoveries: 7
 */
#include "litmus.h"

int main(void) {
  put("foo", "oooo");
  crashcut_barrier();
  int foo = open_to("foo", O_RDWR);
  must(creat("b", 0644));
  must(fallocate(foo, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0, 4));
  pwrite_text(foo, "nnnn", 0);
  must(fsync(foo));
  return 0;
}

void crashcut_recover(void) {
  show_name("b");
  show_text("foo");
}
