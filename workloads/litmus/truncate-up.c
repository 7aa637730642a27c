/* A file made longer by truncate reads as NULs there, at once.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: ab | ab......
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("foo", "ab");
  crashcut_barrier();
  must(truncate("foo", 8));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
