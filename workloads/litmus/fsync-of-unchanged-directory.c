/* fsync of a directory commits the journal whether or not the directory changed (ext4_fsync_journal: what is not a
 * regular file gets ext4_force_commit), so a creation elsewhere is covered: by luck, not by contract. The paper
 * orders directory operations before every later sync.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,- | -,a | said,a
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  must(mkdir("d", 0755));
  crashcut_barrier();
  must(creat("a", 0644));
  sync_name("d");
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_name("a");
  assert(!said || exists("a"));
}
