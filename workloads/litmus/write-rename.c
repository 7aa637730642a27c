/* The right twin of write-rename-wrong: synced before it gets its name.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 1 --block 2
 * outcomes: - | 11
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  crashcut_barrier();
  put_synced("foo", "11");
  must(rename("foo", "bar"));
  return 0;
}

void crashcut_recover(void) {
  show_text("bar");
  assert(!exists("bar") || holds("bar", "11"));
}
