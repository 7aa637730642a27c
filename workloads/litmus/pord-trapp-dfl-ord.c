/* One file is truncated, then another grows: truncation is in order with later growth, of any file.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 1 --block 2
 * outcomes: 0,2 | 0,0 | 2,0
 * recoveries: 3
 * paper-count: 3
 */
#include "litmus.h"

int main(void) {
  int bar = (int)must(creat("bar", 0644));
  put("foo", "00");
  crashcut_barrier();
  must(truncate("foo", 0));
  write_text(bar, "11");
  return 0;
}

void crashcut_recover(void) {
  long bar = size_of("bar"), foo = size_of("foo");
  show("%ld", bar);
  show("%ld", foo);
  assert(!(bar == 2 && foo == 2));
}
