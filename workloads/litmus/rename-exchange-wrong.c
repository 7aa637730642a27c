/* The swap by three renames: in order, each atomic, but between them a name is missing.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: A,B | -,B | B,- | B,A
 * recoveries: 4
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  put("a", "A");
  put("b", "B");
  crashcut_barrier();
  must(rename("a", "tmp"));
  must(rename("b", "a"));
  must(rename("tmp", "b"));
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  show_text("b");
  assert(exists("a") && exists("b"));
}
