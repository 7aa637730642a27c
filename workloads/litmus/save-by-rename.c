/* The right way to save: write beside, fsync, rename over. Old or new in every mode, as long as the drive obeys
 * flushes: with barrier=0 the journal keeps its own order, fsync's commit before the rename, and the data may stay
 * in the drive's cache.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: old! | new!
 * recoveries: 2
 * run: --profile ext4 --data ordered -o barrier=0 --sector 4 --block 4
 * outcomes: old! | .... | new!
 * recoveries: 3
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  put_synced("foo.tmp", "new!");
  must(rename("foo.tmp", "foo"));
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(holds("foo", "old!") || holds("foo", "new!"));
}
