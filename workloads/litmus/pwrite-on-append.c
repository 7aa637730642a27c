/* pwrite through an O_APPEND descriptor appends, whatever the offset (a Linux peculiarity): the old block is never
 * touched.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: AAAA | AAAABBBB
 * recoveries: 2
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: AAAA | AAAA{....,BBBB}
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "AAAA");
  crashcut_barrier();
  pwrite_text(open_to("foo", O_WRONLY | O_APPEND), "BBBB", 0);
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
