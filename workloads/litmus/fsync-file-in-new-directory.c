/* fsync of a file in a directory that is new too: the journal commits both. "-" is seen twice: no directory, and an
 * empty one.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: -,{-,"",F} | said,F
 * recoveries: 5
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,{-,"",.,F} | said,F
 * recoveries: 6
 */
#include "litmus.h"

int main(void) {
  crashcut_barrier();
  must(mkdir("d", 0755));
  put_synced("d/f", "F");
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_text("d/f");
  assert(!said || holds("d/f", "F"));
}
