/* Appends to two files, under data=journal: everything goes through one journal, so the second file never grows
 * without the first. In the other modes each file's size follows its own data at any time.
 * run: --profile {paper,ext4} --data journal --sector 1 --block 2
 * outcomes: 2,2 | 4,2 | 4,4
 * recoveries: 3
 * paper-count: 9
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 1 --block 2
 * outcomes: {2,4},{2,4}
 * recoveries: 4
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  put("foo", "00");
  put("bar", "00");
  crashcut_barrier();
  write_text(open_to("foo", O_WRONLY | O_APPEND), "11");
  write_text(open_to("bar", O_WRONLY | O_APPEND), "11");
  return 0;
}

void crashcut_recover(void) {
  long foo = size_of("foo"), bar = size_of("bar");
  show("%ld", foo);
  show("%ld", bar);
  assert(foo == 4 || bar == 2);
}
