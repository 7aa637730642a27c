/* A block is punched out: ext4 unmaps it in the journal, at once. The paper knows no holes and zeroes it as data,
 * sector by sector where there is no data journal.
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 1 --block 2
 * run: --profile paper --data journal --sector 1 --block 2
 * outcomes: AABBCC | AA..CC
 * recoveries: 2
 * run: --profile paper --data {ordered,writeback} --sector 1 --block 2
 * outcomes: AABBCC | AA.BCC | AA..CC
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "AABBCC");
  crashcut_barrier();
  must(fallocate(open_to("foo", O_RDWR), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 2));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
