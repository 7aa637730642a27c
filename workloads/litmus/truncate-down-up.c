/* Cut off and made longer again: what was cut off does not come back below the second size. The kernel frees the
 * block; the paper writes zeros over it, which waits for no truncation but has the second one wait in its ordered
 * mode.
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 1 --block 2
 * run: --profile paper --data journal --sector 1 --block 2
 * outcomes: abcd | ab | ab..
 * recoveries: 3
 * run: --profile paper --data ordered --sector 1 --block 2
 * outcomes: abcd | ab.d | ab.. | ab
 * recoveries: 5
 * run: --profile paper --data writeback --sector 1 --block 2
 * outcomes: abcd | ab.d | ab.. | ab
 * recoveries: 7
 */
#include "litmus.h"

int main(void) {
  put("foo", "abcd");
  crashcut_barrier();
  int foo = open_to("foo", O_WRONLY);
  must(ftruncate(foo, 2));
  must(ftruncate(foo, 4));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
