/* A place that was reused can be freed and reused again: the first file's name shows what the last one wrote. What was
 * written to b is gone from the disk's metadata in all cuts that show a, and may be its data all the same.
 * run: --profile {paper,ext4} --data {ordered,journal} --sector 4 --block 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: - | old!
 * recoveries: 2
 * run: --profile ext4 --data writeback --sector 4 --block 4
 * outcomes: - | new1 | new2 | old!
 * recoveries: 4
 */
#include "litmus.h"

int main(void) {
  put("a", "old!");
  crashcut_barrier();
  must(unlink("a"));
  put("b", "new1");
  must(unlink("b"));
  put("c", "new2");
  return 0;
}

void crashcut_recover(void) { show_text("a"); }
