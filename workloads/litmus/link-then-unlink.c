/* Moving by link and unlink: for a moment both names are there, never none.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: A,- | A,A | -,A
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("a", "A");
  crashcut_barrier();
  must(link("a", "b"));
  must(unlink("a"));
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  show_text("b");
  assert(exists("a") || exists("b"));
}
