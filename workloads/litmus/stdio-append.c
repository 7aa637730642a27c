/* A log by fopen("a"), each line flushed and synced: the second only with the first.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: "" | one! | one!two!
 * recoveries: 3
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: "" | .... | one! | one!.... | one!two!
 * recoveries: 5
 */
#include "litmus.h"

int main(void) {
  must(creat("log", 0644));
  crashcut_barrier();
  FILE* log = fopen("log", "a");
  assert(log && fputs("one!", log) >= 0);
  must(fflush(log));
  must(fsync(fileno(log)));
  assert(fputs("two!", log) >= 0);
  must(fclose(log));
  return 0;
}

void crashcut_recover(void) {
  show_text("log");
  assert(!holds("log", "....two!"));
}
