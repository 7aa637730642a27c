/* Two names of one file show the same bytes after every crash.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: old!,old! | new!,new!
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("a", "old!");
  must(link("a", "b"));
  crashcut_barrier();
  pwrite_text(open_to("a", O_WRONLY), "new!", 0);
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  show_text("b");
}
