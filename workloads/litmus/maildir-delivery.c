/* Delivery into a maildir: written and synced in tmp, linked into new, unlinked from tmp. In new it is whole.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: -,{-,"",M} | M,{M,-}
 * recoveries: 5
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,{-,"",.,M} | M,{M,-}
 * recoveries: 6
 */
#include "litmus.h"

int main(void) {
  must(mkdir("tmp", 0755));
  must(mkdir("new", 0755));
  crashcut_barrier();
  put_synced("tmp/m", "M");
  must(link("tmp/m", "new/m"));
  must(unlink("tmp/m"));
  return 0;
}

void crashcut_recover(void) {
  show_text("new/m");
  show_text("tmp/m");
  assert(!exists("new/m") || holds("new/m", "M"));
}
