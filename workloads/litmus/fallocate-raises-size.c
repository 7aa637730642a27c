/* fallocate() of a range inside the size that the running system sees, but beyond the size on the disk: the latter is
 * made to reach to the end of the range (ext4_alloc_file_blocks). The paper does not know the call.
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,"" | {-,b},...... | {-,b},....{....,bbbb}
 * recoveries: 7
 * run: --profile ext4 --data journal --sector 4 --block 4
 * outcomes: -,"" | {-,b},....bbbb
 * recoveries: 3
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: {-,b},"" | {-,b},....bbbb
 * recoveries: 4
 * run: --profile paper --data journal --sector 4 --block 4
 * outcomes: -,"" | {-,b},....bbbb
 * recoveries: 3
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: {-,b},"" | {-,b},....{....,bbbb}
 * recoveries: 6
 */
#include "litmus.h"

int main(void) {
  int foo = (int)must(creat("foo", 0644));
  crashcut_barrier();
  pwrite_text(foo, "bbbb", 4);
  must(fallocate(foo, 0, 0, 6));
  must(creat("b", 0644));
  return 0;
}

void crashcut_recover(void) {
  show_name("b");
  show_text("foo");
}
