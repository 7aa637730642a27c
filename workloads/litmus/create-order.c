/* Two files are created: directory operations persist in order, in every mode, so b is never there without a.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,- | a,- | a,b
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  must(creat("a", 0644));
  must(creat("b", 0644));
  return 0;
}

void crashcut_recover(void) {
  show_name("a");
  show_name("b");
  assert(exists("a") || !exists("b"));
}
