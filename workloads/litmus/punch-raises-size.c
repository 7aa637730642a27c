/* A hole is punched into data that is not written yet. First the size on the disk is made to reach to the end of the
 * hole (ext4_update_disksize_before_punch), so whatever the journal takes later finds a file of six bytes at least.
 * The part of the second block is zeroed as data, which data=ordered waits for and data=writeback does not. The
 * paper's hole is zeros that are written.
 * run: --profile ext4 --data ordered --sector 4 --block 4
 * outcomes: -,"" | -,{....,aaaa} | -,{....,aaaa}.. | -,{....,aaaa}{....,..bb,bbbb} | b,...... | b,....{....,..bb}
 * recoveries: 17
 * run: --profile ext4 --data writeback --sector 4 --block 4
 * outcomes: -,"" | -,.... | -,aaaa | -,...... | -,aaaa.. | -,........ | -,......bb | -,....bbbb | -,aaaa.... |
 *   -,aaaa..bb | -,aaaabbbb | b,...... | b,........ | b,......bb | b,....bbbb | -,..bb | -,..bb.. | -,bbbb | -,bbbb..
 * recoveries: 23
 * run: --profile ext4 --data journal --sector 4 --block 4
 * outcomes: -,"" | -,aaaa | -,aaaabbbb | {-,b},......bb
 * recoveries: 5
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: {-,b},"" | {-,b},{....,aaaa} | {-,b},{....,aaaa}{bbbb,..bb}
 * recoveries: 14
 * run: --profile paper --data journal --sector 4 --block 4
 * outcomes: -,"" | -,aaaa | -,aaaabbbb | -,....bbbb | {-,b},......bb
 * recoveries: 6
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: {-,b},"" | {-,b},{....,aaaa} | {-,b},{....,aaaa}{....,bbbb,..bb}
 * recoveries: 26
 */
#include "litmus.h"

int main(void) {
  int foo = (int)must(creat("foo", 0644));
  crashcut_barrier();
  pwrite_text(foo, "aaaabbbb", 0);
  must(fallocate(foo, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 6));
  must(creat("b", 0644));
  return 0;
}

void crashcut_recover(void) {
  show_name("b");
  show_text("foo");
}
