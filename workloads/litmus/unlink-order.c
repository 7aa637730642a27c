/* Two files are unlinked, in order.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: a,b | -,b | -,-
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("a", "A");
  put("b", "B");
  crashcut_barrier();
  must(unlink("a"));
  must(unlink("b"));
  return 0;
}

void crashcut_recover(void) {
  show_name("a");
  show_name("b");
}
