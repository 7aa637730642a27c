/* A directory is filled, its files synced, then renamed to its final name: whole or not there.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,-,- | done,A,B
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  crashcut_barrier();
  must(mkdir("new", 0755));
  put_synced("new/a", "A");
  put_synced("new/b", "B");
  must(rename("new", "done"));
  return 0;
}

void crashcut_recover(void) {
  show_name("done");
  show_text("done/a");
  show_text("done/b");
  assert(!exists("done") || (holds("done/a", "A") && holds("done/b", "B")));
}
