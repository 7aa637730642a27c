/* Each O_DSYNC write is durable, size and all, before the next begins: the second record only with the first whole.
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
  int log = open_to("log", O_WRONLY | O_APPEND | O_DSYNC);
  write_text(log, "one!");
  write_text(log, "two!");
  return 0;
}

void crashcut_recover(void) {
  show_text("log");
  assert(size_of("log") <= 4 || !holds("log", "....two!"));
}
