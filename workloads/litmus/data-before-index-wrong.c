/* Without the sync the index counts a record that is not there. One journal keeps the order.
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: {0000,0001},{"",rec1}
 * recoveries: 4
 * violation: yes
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: {0000,0001},{"",....,rec1}
 * recoveries: 6
 * violation: yes
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: 0000,"" | 0000,rec1 | 0001,rec1
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  must(creat("data", 0644));
  put("index", "0000");
  crashcut_barrier();
  int data = open_to("data", O_WRONLY | O_APPEND);
  write_text(data, "rec1");
  pwrite_text(open_to("index", O_WRONLY), "0001", 0);
  return 0;
}

void crashcut_recover(void) {
  show_text("index");
  show_text("data");
  assert(holds("index", "0000") || holds("data", "rec1"));
}
