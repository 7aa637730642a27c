/* A rename from one directory to another changes both in one transaction: the file is in exactly one of them.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: F,- | -,F
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  must(mkdir("d", 0755));
  must(mkdir("e", 0755));
  put("d/f", "F");
  crashcut_barrier();
  must(rename("d/f", "e/f"));
  return 0;
}

void crashcut_recover(void) {
  show_text("d/f");
  show_text("e/f");
  assert(exists("d/f") != exists("e/f"));
}
