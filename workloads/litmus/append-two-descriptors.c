/* Two descriptors opened O_APPEND: each write goes to the end, wherever the other has put it, and the file grows in
 * that order. What shows below the size is the mode's matter.
 * run: --profile paper --data ordered --sector 2 --block 2
 * run: --profile {paper,ext4} --data journal --sector 2 --block 2
 * outcomes: "" | aa | aabb
 * recoveries: 3
 * run: --profile paper --data writeback --sector 2 --block 2
 * run: --profile ext4 --data {ordered,writeback} --sector 2 --block 2
 * outcomes: "" | {..,aa} | {..,aa}{..,bb}
 * recoveries: 7
 */
#include "litmus.h"

int main(void) {
  must(creat("log", 0644));
  crashcut_barrier();
  int one = open_to("log", O_WRONLY | O_APPEND), two = open_to("log", O_WRONLY | O_APPEND);
  write_text(one, "aa");
  write_text(two, "bb");
  return 0;
}

void crashcut_recover(void) { show_text("log"); }
