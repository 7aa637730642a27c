/* fdatasync of a new file: its creation is needed to read it, so it is covered (i_datasync_tid), its name with it.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: -,{-,"",new!} | said,new!
 * recoveries: 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,{-,"",....,new!} | said,new!
 * recoveries: 5
 */
#include "litmus.h"

int main(void) {
  crashcut_barrier();
  int foo = open_to("foo", O_WRONLY | O_CREAT);
  write_text(foo, "new!");
  must(fdatasync(foo));
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_text("foo");
  assert(!said || holds("foo", "new!"));
}
