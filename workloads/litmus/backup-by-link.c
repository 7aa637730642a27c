/* The old text keeps a second name before the new one is renamed over it: new text only with a backup.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: old!,- | old!,old! | new!,old!
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  must(link("foo", "foo~"));
  put_synced("tmp", "new!");
  must(rename("tmp", "foo"));
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  show_text("foo~");
  assert(holds("foo", "old!") || holds("foo~", "old!"));
}
