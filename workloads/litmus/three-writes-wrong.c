/* The same three pieces by three calls: the sector goes out after any of them.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: old! | ald! | abc! | abcd
 * recoveries: 4
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  int foo = open_to("foo", O_WRONLY);
  write_text(foo, "a");
  write_text(foo, "bc");
  write_text(foo, "d");
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(holds("foo", "old!") || holds("foo", "abcd"));
}
