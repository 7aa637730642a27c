/* What lies before the last barrier is durable: only the second of these writes is in question.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: aaaa,old! | aaaa,bbbb
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("a", "old!");
  crashcut_barrier();
  put("a", "aaaa");
  put("b", "old!");
  crashcut_barrier();
  pwrite_text(open_to("b", O_WRONLY), "bbbb", 0);
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  show_text("b");
}
