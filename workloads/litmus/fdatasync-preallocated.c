/* A log whose space and size were there before: a record is durable by fdatasync alone.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,........ | -,rec1.... | said,rec1....
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  int log = (int)must(creat("log", 0644));
  must(fallocate(log, 0, 0, 8));
  crashcut_barrier();
  pwrite_text(log, "rec1", 0);
  must(fdatasync(log));
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_text("log");
  assert(!said || holds("log", "rec1...."));
}
