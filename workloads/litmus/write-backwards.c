/* A block behind a hole, then the hole: writeback goes through the file in its own order and sets the size to the
 * end of what it has mapped (mpage_map_and_submit_extent), so the first block can be there with the size just
 * behind it, although the program's file was never so short. The paper grows a file when it is written, over zeros.
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: AAAA | AAAA{....,BBBB} | AAAA{....,BBBB}{....,CCCC}
 * recoveries: 7
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: AAAA | AAAA{....,BBBB}CCCC
 * recoveries: 3
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: AAAA | AAAA{....,BBBB}{....,CCCC}
 * recoveries: 5
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: AAAA | AAAA{....,BBBB}CCCC
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "AAAA");
  crashcut_barrier();
  int foo = open_to("foo", O_WRONLY);
  pwrite_text(foo, "CCCC", 8);
  pwrite_text(foo, "BBBB", 4);
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
