/* Unsynced data and then a collapse: the kernel writes the file out and waits before it moves blocks
 * (ext4_collapse_range), so the moved block is never the old one. In the paper's terms: the move writes the first
 * block, zeros the second, and truncates; writes of two blocks are in no order.
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: AAAABBBB | AAAAbbbb | bbbb
 * recoveries: 3
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: {AAAA,bbbb}{BBBB,bbbb,....} | bbbb
 * recoveries: 7
 * run: --profile paper --data journal --sector 4 --block 4
 * outcomes: AAAABBBB | AAAAbbbb | bbbbbbbb | bbbb.... | bbbb
 * recoveries: 5
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: {AAAA,bbbb}{BBBB,bbbb,....} | {AAAA,bbbb}
 * recoveries: 8
 */
#include "litmus.h"

int main(void) {
  put("foo", "AAAABBBB");
  crashcut_barrier();
  int foo = open_to("foo", O_RDWR);
  pwrite_text(foo, "bbbb", 4);
  must(fallocate(foo, FALLOC_FL_COLLAPSE_RANGE, 0, 4));
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(!holds("foo", "BBBB"));
}
