/* Two blocks are zeroed and the first is written. Where an unwritten block becomes written before its data, the kernel
 * zeroes the rest of the small extent on the disk at once (ext4_ext_convert_to_initialized): under the old metadata the
 * neighbour shows NULs. In data=journal the replay of old data undoes those NULs, and the fsync does not help (seen on
 * 6.18).
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,-,{oooo,nnnn}pppp | -,b,{oooo,nnnn}pppp | -,b,{....,nnnn}.... | synced,b,nnnn....
 * recoveries: 7
 * run: --profile ext4 -o nodelalloc --sector 4 --block 4
 * outcomes: -,{-,b},{oooo,nnnn}{pppp,....} | -,b,........ | synced,b,nnnn....
 * recoveries: 11
 * run: --profile ext4 -o dioread_lock --sector 4 --block 4
 * outcomes: -,{-,b},{oooo,....,nnnn}{pppp,....} | synced,b,nnnn....
 * recoveries: 15
 * run: --profile ext4 --data journal --sector 4 --block 4
 * outcomes: -,{-,b},oooo{pppp,....} | -,b,........ | {-,synced},b,nnnn{pppp,....}
 * recoveries: 9
 * run: --profile paper --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,{-,b},{oooo,....,nnnn}{pppp,....} | synced,b,nnnn....
 * recoveries: 13
 * run: --profile paper --data journal --sector 4 --block 4
 * outcomes: -,{-,b},oooopppp | -,b,....pppp | -,b,........ | {-,synced},b,nnnn....
 * recoveries: 6
 */
#include "litmus.h"

int main(void) {
  put("foo", "oooopppp");
  crashcut_barrier();
  int foo = open_to("foo", O_RDWR);
  must(creat("b", 0644));
  must(fallocate(foo, FALLOC_FL_ZERO_RANGE, 0, 8));
  pwrite_text(foo, "nnnn", 0);
  must(fsync(foo));
  crashcut_mark("synced");
  return 0;
}

void crashcut_recover(void) {
  show_mark("synced");
  show_name("b");
  show_text("foo");
}
