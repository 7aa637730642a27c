/* An overwrite inside one block: data=journal takes the block as one piece, the other modes sector by sector, from
 * the block's start.
 * run: --profile {paper,ext4} --data journal --sector 1 --block 2
 * outcomes: 00 | 11
 * recoveries: 2
 * paper-count: 5
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 1 --block 2
 * outcomes: 00 | 10 | 11
 * recoveries: 3
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  int foo = open_to("foo", O_RDWR | O_CREAT);
  write_text(foo, "00");
  crashcut_barrier();
  pwrite_text(foo, "11", 0);
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(!holds("foo", "10"));
}
