/* A write behind the end leaves a hole: it reads as NULs, and the size covers it and the new block at once.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: AAAA | AAAA....CCCC
 * recoveries: 2
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: AAAA | AAAA....{....,CCCC}
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "AAAA");
  crashcut_barrier();
  pwrite_text(open_to("foo", O_WRONLY), "CCCC", 8);
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
