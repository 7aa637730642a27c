/* Two overwrites in different blocks of one file are in no order, except in one journal.
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 4 --block 4
 * outcomes: {old1,new1}{old2,new2}
 * recoveries: 4
 * violation: yes
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: old1old2 | new1old2 | new1new2
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "old1old2");
  crashcut_barrier();
  int foo = open_to("foo", O_WRONLY);
  pwrite_text(foo, "new1", 0);
  pwrite_text(foo, "new2", 4);
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(!holds("foo", "old1new2"));
}
