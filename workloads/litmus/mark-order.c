/* Two marks: the second was reached only if the first was. A mark that main() never sets is never reached.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,-,- | one,-,- | one,two,-
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  crashcut_mark("one");
  crashcut_mark("two");
  return 0;
}

void crashcut_recover(void) {
  show_mark("one");
  show_mark("two");
  show_mark("three");
}
