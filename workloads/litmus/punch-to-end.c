/* A hole over the end of the file ends inside a block, but the block goes as a whole: in the journal, at once, and not
 * as data, sector by sector. In the paper's terms it is zeros that are written.
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 1 --block 4
 * outcomes: AAAABB | AAAA..
 * recoveries: 2
 * run: --profile paper --data {ordered,writeback} --sector 1 --block 4
 * outcomes: AAAABB | AAAA.B | AAAA..
 * recoveries: 3
 * run: --profile paper --data journal --sector 1 --block 4
 * outcomes: AAAABB | AAAA..
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("foo", "AAAABB");
  crashcut_barrier();
  must(fallocate(open_to("foo", O_RDWR), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4, 3));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
