/* A name is replaced; the other name of the old file keeps the old text.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: A,A | C,A
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("a", "A");
  must(link("a", "b"));
  crashcut_barrier();
  put_synced("c", "C");
  must(rename("c", "a"));
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  show_text("b");
  assert(holds("b", "A"));
}
