/* A move across filesystems, as mv does it, with fsync: the copy is whole before the original goes. Before that the
 * copy may be missing, empty or NULs.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: A,{-,"",A} | -,A
 * recoveries: 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: A,{-,"",.,A} | -,A
 * recoveries: 5
 */
#include "litmus.h"

int main(void) {
  put("a", "A");
  crashcut_barrier();
  put_synced("b", "A");
  must(unlink("a"));
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  show_text("b");
  assert(exists("a") || holds("b", "A"));
}
