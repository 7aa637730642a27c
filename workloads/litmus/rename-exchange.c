/* RENAME_EXCHANGE swaps two files in one step: neither name is ever missing.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: A,B | B,A
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("a", "A");
  put("b", "B");
  crashcut_barrier();
  must(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE));
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  show_text("b");
  assert(exists("a") && exists("b"));
}
