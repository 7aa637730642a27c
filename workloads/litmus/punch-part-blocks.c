/* A hole that begins and ends inside blocks: the parts are zeroed as data, each in its own time. With data=journal
 * ext4_punch_hole zeroes both in one handle; the paper's journal
 * takes one block after the other.
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 1 --block 2
 * outcomes: AABB | A.BB | AA.B | A..B
 * recoveries: 4
 * run: --profile ext4 --data journal --sector 1 --block 2
 * outcomes: AABB | A..B
 * recoveries: 2
 * run: --profile paper --data journal --sector 1 --block 2
 * outcomes: AABB | A.BB | A..B
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "AABB");
  crashcut_barrier();
  must(fallocate(open_to("foo", O_RDWR), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1, 2));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
