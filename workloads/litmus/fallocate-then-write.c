/* Space preallocated with its size, then used: NULs until the data is there. Nothing grows, so one fdatasync would
 * do.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: "" | ........ | data....
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  int foo = (int)must(creat("foo", 0644));
  crashcut_barrier();
  must(fallocate(foo, 0, 0, 8));
  pwrite_text(foo, "data", 0);
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
