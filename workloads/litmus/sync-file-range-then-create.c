/* Writeback of a new file was started: its blocks are allocated and its size has grown in the journal before
 * whatever comes next, here another file. The data need not be out. (The paper has no such call; its growth waits
 * for nothing.)
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,{"",....,new!} | b,{....,new!}
 * recoveries: 5
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: {-,b},{"",new!}
 * recoveries: 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: {-,b},{"",....,new!}
 * recoveries: 6
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: -,"" | -,new! | b,new!
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  int foo = (int)must(creat("foo", 0644));
  crashcut_barrier();
  write_text(foo, "new!");
  must(sync_file_range(foo, 0, 0, SYNC_FILE_RANGE_WRITE));
  must(creat("b", 0644));
  return 0;
}

void crashcut_recover(void) {
  show_name("b");
  show_text("foo");
}
