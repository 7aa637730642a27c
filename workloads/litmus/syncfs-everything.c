/* syncfs() through any descriptor covers the filesystem, also files that it is not open on.
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,{old!,new!},{old!,new!} | said,new!,new!
 * recoveries: 5
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: -,old!,old! | -,new!,old! | -,new!,new! | said,new!,new!
 * recoveries: 4
 */
#include "litmus.h"

int main(void) {
  put("a", "old!");
  put("b", "old!");
  crashcut_barrier();
  pwrite_text(open_to("a", O_WRONLY), "new!", 0);
  pwrite_text(open_to("b", O_WRONLY), "new!", 0);
  must(syncfs(open_to(".", O_RDONLY)));
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_text("a");
  show_text("b");
  assert(!said || (holds("a", "new!") && holds("b", "new!")));
}
