/* A block is cut out behind data that is not written yet. The kernel writes out what moves and waits, and leaves what
 * lies before the cut as it was (ext4_collapse_range).
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,"" | -,{....,aaaa} | -,{....,aaaa}{....,bbbb} | -,{....,aaaa}{....,bbbb}{....,cccc} |
 * {-,b},{....,aaaa}cccc
 * recoveries: 19
 * run: --profile ext4 --data journal --sector 4 --block 4
 * outcomes: -,"" | -,aaaa | -,aaaabbbb | -,aaaabbbbcccc | {-,b},aaaacccc
 * recoveries: 6
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: -,"" | -,aaaa | -,aaaa{bbbb,cccc} | -,aaaa{bbbb,cccc}{cccc,....} | b,aaaacccc
 * recoveries: 10
 * run: --profile paper --data journal --sector 4 --block 4
 * outcomes: -,"" | -,aaaa | -,aaaabbbb | -,aaaabbbbcccc | -,aaaacccc{cccc,....} | {-,b},aaaacccc
 * recoveries: 8
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: -,"" | -,{....,aaaa} | {-,b},{....,aaaa}{....,bbbb,cccc} | -,{....,aaaa}{....,bbbb,cccc}{....,cccc}
 * recoveries: 39
 */
#include "litmus.h"

int main(void) {
  int foo = (int)must(creat("foo", 0644));
  crashcut_barrier();
  pwrite_text(foo, "aaaabbbbcccc", 0);
  must(fallocate(foo, FALLOC_FL_COLLAPSE_RANGE, 4, 4));
  must(creat("b", 0644));
  return 0;
}

void crashcut_recover(void) {
  show_name("b");
  show_text("foo");
}
