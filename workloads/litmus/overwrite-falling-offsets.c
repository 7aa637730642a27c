/* Two writes into one block, the second before the first: the block is written from its start, so their order is
 * lost.
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 1 --block 2
 * outcomes: {o,n}{o,n}
 * recoveries: 4
 * run: --profile {paper,ext4} --data journal --sector 1 --block 2
 * outcomes: oo | on | nn
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "oo");
  crashcut_barrier();
  int foo = open_to("foo", O_WRONLY);
  pwrite_text(foo, "n", 1);
  pwrite_text(foo, "n", 0);
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
