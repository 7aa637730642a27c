/* An overwrite of one block of two sectors: from its start, so the first sector may be new alone, never the second.
 * One journal takes the block whole.
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 1 --block 2
 * outcomes: oo | no | nn
 * recoveries: 3
 * run: --profile {paper,ext4} --data journal --sector 1 --block 2
 * outcomes: oo | nn
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("foo", "oo");
  crashcut_barrier();
  pwrite_text(open_to("foo", O_WRONLY), "nn", 0);
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(!holds("foo", "on"));
}
