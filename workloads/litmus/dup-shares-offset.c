/* A dup'ed descriptor shares the offset: the second write goes on where the first ended.
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
  int one = (int)must(creat("foo", 0644)), two = (int)must(dup(one));
  crashcut_barrier();
  write_text(one, "aa");
  must(close(one));
  write_text(two, "bb");
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
