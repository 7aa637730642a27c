/* An append that is cut off again: the file is as before, or longer for a while.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: AAAA | AAAABBBB
 * recoveries: 3
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: AAAA | AAAA.... | AAAABBBB
 * recoveries: 4
 */
#include "litmus.h"

int main(void) {
  put("foo", "AAAA");
  crashcut_barrier();
  int foo = open_to("foo", O_WRONLY | O_APPEND);
  write_text(foo, "BBBB");
  must(ftruncate(foo, 4));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
