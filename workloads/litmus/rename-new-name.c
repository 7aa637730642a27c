/* A rename is atomic: exactly one of the two names is there, with the old text.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: A,- | -,A
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("a", "A");
  crashcut_barrier();
  must(rename("a", "b"));
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  show_text("b");
  assert(exists("a") != exists("b"));
}
