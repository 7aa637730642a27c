/* The same where a slot is four sectors: its number arrives first, its text may not. One journal takes the block
 * whole.
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 1 --block 4
 * outcomes: 1aaa | 2--- | 2b-- | 2bb- | 2bbb
 * recoveries: 5
 * violation: yes
 * run: --profile {paper,ext4} --data journal --sector 1 --block 4
 * outcomes: 1aaa | 2bbb
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("slots", "1aaa0---");
  crashcut_barrier();
  int slots = open_to("slots", O_WRONLY);
  pwrite_text(slots, "2bbb", 4);
  must(fdatasync(slots));
  return 0;
}

/* The slot with the higher number counts. */
void crashcut_recover(void) {
  char text[TEXT_MOST + 1];
  read_text("slots", text);
  const char* best = text[4] > text[0] ? text + 4 : text;
  show("%.4s", best);
  assert(strncmp(best, "1aaa", 4) == 0 || strncmp(best, "2bbb", 4) == 0);
}
