/* Written, then renamed to a new name without fsync: the rename waits for nothing, so the new name can show an
 * empty file, or one of NULs where sizes do not wait for data. One journal has the data first.
 * run: --profile paper --data ordered --sector 1 --block 2
 * outcomes: - | "" | 11
 * recoveries: 3
 * violation: yes
 * run: --profile paper --data writeback --sector 1 --block 2
 * outcomes: - | "" | .. | 1. | 11
 * recoveries: 5
 * violation: yes
 * run: --profile ext4 --data {ordered,writeback} --sector 1 --block 2
 * outcomes: - | "" | .. | 11
 * recoveries: 4
 * violation: yes
 * run: --profile {paper,ext4} --data journal --sector 1 --block 2
 * outcomes: - | 11
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  crashcut_barrier();
  put("foo", "11");
  must(rename("foo", "bar"));
  return 0;
}

void crashcut_recover(void) {
  show_text("bar");
  assert(!exists("bar") || holds("bar", "11"));
}
