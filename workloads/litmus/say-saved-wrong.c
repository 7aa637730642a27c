/* Said without any sync: the promise is there and the file need not be.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: {-,saved},{-,"",new!}
 * recoveries: 6
 * violation: yes
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: {-,saved},{-,"",....,new!}
 * recoveries: 8
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  crashcut_barrier();
  put("foo", "new!");
  crashcut_mark("saved");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("saved");
  show_text("foo");
  assert(!said || holds("foo", "new!"));
}
