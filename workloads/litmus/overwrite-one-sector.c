/* A sector goes out whole, and three versions of it in order.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: aaaa | bbbb | cccc
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "aaaa");
  crashcut_barrier();
  int foo = open_to("foo", O_WRONLY);
  pwrite_text(foo, "bbbb", 0);
  pwrite_text(foo, "cccc", 0);
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
