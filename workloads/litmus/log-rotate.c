/* A log is rotated by rename and a new one is begun: no moment without the old entries.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: old!,- | -,old! | "",old!
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("log", "old!");
  crashcut_barrier();
  must(rename("log", "log.1"));
  must(creat("log", 0644));
  return 0;
}

void crashcut_recover(void) {
  show_text("log");
  show_text("log.1");
  assert(holds("log", "old!") || holds("log.1", "old!"));
}
