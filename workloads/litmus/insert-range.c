/* A hole is put into the middle: one transaction. The paper knows no such call: there it is zeros and the moved block,
 * as if they had been written, and then the size.
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: AAAABBBB | AAAA....BBBB
 * recoveries: 2
 * run: --profile paper --data {ordered,journal} --sector 4 --block 4
 * outcomes: AAAABBBB | AAAA.... | AAAA....BBBB
 * recoveries: 3
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: AAAA{BBBB,....} | AAAA{BBBB,....}{....,BBBB}
 * recoveries: 6
 */
#include "litmus.h"

int main(void) {
  put("foo", "AAAABBBB");
  crashcut_barrier();
  must(fallocate(open_to("foo", O_RDWR), FALLOC_FL_INSERT_RANGE, 4, 4));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
