/* A range that begins and ends inside blocks is zeroed, and the file grows: the size, the whole blocks and the parts
 * at the ends are transactions of their own, in this order (ext4_zero_range); the parts are data, but for
 * data=journal. In the paper's terms zeros are written, and then the size.
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: {aaaa,aa..}bbbb | {aaaa,aa..}bbbb.. | {aaaa,aa..}......
 * recoveries: 6
 * run: --profile ext4 --data journal --sector 4 --block 4
 * outcomes: aaaabbbb | aaaabbbb.. | aaaa...... | aa........
 * recoveries: 4
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: {aaaa,aa..}{bbbb,....} | aa........
 * recoveries: 5
 * run: --profile paper --data journal --sector 4 --block 4
 * outcomes: aaaabbbb | aa..bbbb | aa...... | aa........
 * recoveries: 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: {aaaa,aa..}{bbbb,....} | {aaaa,aa..}{bbbb..,......}
 * recoveries: 8
 */
#include "litmus.h"

int main(void) {
  put("foo", "aaaabbbb");
  crashcut_barrier();
  must(fallocate(open_to("foo", O_RDWR), FALLOC_FL_ZERO_RANGE, 2, 8));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
