/* Writeback of the first of two new blocks was started: that block is allocated and the size grown to its end
 * before whatever the journal takes next, the second block need not be (mpage_prepare_extent_to_map keeps to the
 * range). One journal has both first. The paper does not know
 * the call: nothing is waited for.
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,"" | {-,b},{....,aaaa} | {-,b},{....,aaaa}{....,bbbb}
 * recoveries: 13
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: -,"" | -,aaaa | -,aaaabbbb | b,aaaabbbb
 * recoveries: 4
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: {-,b},"" | {-,b},aaaa | {-,b},aaaabbbb
 * recoveries: 6
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: {-,b},"" | {-,b},{....,aaaa} | {-,b},{....,aaaa}{....,bbbb}
 * recoveries: 14
 */
#include "litmus.h"

int main(void) {
  int foo = (int)must(creat("foo", 0644));
  crashcut_barrier();
  write_text(foo, "aaaabbbb");
  must(sync_file_range(foo, 0, 4, SYNC_FILE_RANGE_WRITE));
  must(creat("b", 0644));
  return 0;
}

void crashcut_recover(void) {
  show_name("b");
  show_text("foo");
}
