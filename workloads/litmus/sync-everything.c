/* sync() covers every file and name.
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,{-,a},{old!,new!} | said,a,new!
 * recoveries: 5
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: -,-,old! | -,a,old! | -,a,new! | said,a,new!
 * recoveries: 4
 */
#include "litmus.h"

int main(void) {
  put("b", "old!");
  crashcut_barrier();
  must(creat("a", 0644));
  pwrite_text(open_to("b", O_WRONLY), "new!", 0);
  sync();
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_name("a");
  show_text("b");
  assert(!said || (exists("a") && holds("b", "new!")));
}
