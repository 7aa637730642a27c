/* Unsynced data and then a collapse: the kernel writes the file out and waits before it moves blocks
 * (ext4_collapse_range), so the moved block is never the old one.
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: AAAABBBB | AAAAbbbb | bbbb
 * recoveries: 3
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
