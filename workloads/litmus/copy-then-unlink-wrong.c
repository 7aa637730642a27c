/* The same without fsync: the original can be gone while the copy is empty or NULs. One journal has the copy first.
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: A,{-,"",A} | -,{"",A}
 * recoveries: 5
 * violation: yes
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data ordered --sector 4 --block 4
 * outcomes: A,{-,"",.,A} | -,{"",.,A}
 * recoveries: 7
 * violation: yes
 * run: --profile ext4 --data writeback --sector 4 --block 4
 * outcomes: A,- | A,"" | A,. | A,A | -,"" | -,. | -,A
 * recoveries: 9
 * violation: yes
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: A,{-,"",A} | -,A
 * recoveries: 4
 */
#include "litmus.h"

int main(void) {
  put("a", "A");
  crashcut_barrier();
  put("b", "A");
  must(unlink("a"));
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  show_text("b");
  assert(exists("a") || holds("b", "A"));
}
