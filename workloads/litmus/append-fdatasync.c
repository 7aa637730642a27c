/* fdatasync covers a size that grew, or the data could not be read: whoever heard it finds all of it.
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 1 --block 4
 * outcomes: -,{ab,ab..,abc.,abcd} | said,abcd
 * recoveries: 5
 * run: --profile {paper,ext4} --data journal --sector 1 --block 4
 * outcomes: -,{ab,abcd} | said,abcd
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "ab");
  crashcut_barrier();
  int foo = open_to("foo", O_WRONLY | O_APPEND);
  write_text(foo, "cd");
  must(fdatasync(foo));
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_text("foo");
  assert(!said || holds("foo", "abcd"));
}
