/* Two slots, the newer one overwrites the older: a slot is one sector, so one of them is always whole.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,1aaa | -,2bbb | said,2bbb
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("slots", "1aaa0---");
  crashcut_barrier();
  int slots = open_to("slots", O_WRONLY);
  pwrite_text(slots, "2bbb", 4);
  must(fdatasync(slots));
  crashcut_mark("said");
  return 0;
}

/* The slot with the higher number counts. */
void crashcut_recover(void) {
  char text[TEXT_MOST + 1];
  int said = show_mark("said");
  read_text("slots", text);
  const char* best = text[4] > text[0] ? text + 4 : text;
  show("%.4s", best);
  assert(strncmp(best, "1aaa", 4) == 0 || strncmp(best, "2bbb", 4) == 0);
  assert(!said || *best == '2');
}
