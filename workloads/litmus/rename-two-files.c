/* Two files that belong together, each replaced atomically: together they are not, and recovery must cope with new
 * a and old b.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: 1,1 | 2,1 | 2,2
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("a", "1");
  put("b", "1");
  crashcut_barrier();
  put_synced("a.tmp", "2");
  put_synced("b.tmp", "2");
  must(rename("a.tmp", "a"));
  must(rename("b.tmp", "b"));
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  show_text("b");
  assert(!(holds("b", "2") && holds("a", "1")));
}
