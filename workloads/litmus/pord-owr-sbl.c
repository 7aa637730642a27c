/* A block written twice: its sectors go out from the start, each in order, so the second never leads with the
 * first. Without data before size (writeback) the first write can be missing in part; ext4 shows a new block when
 * its first data is out, NULs before; one journal takes blocks whole.
 * run: --profile paper --data ordered --sector 1 --block 2
 * outcomes: - | "" | 11 | 21 | 22
 * recoveries: 5
 * paper-count: 6
 * run: --profile paper --data writeback --sector 1 --block 2
 * outcomes: - | "" | .. | 1. | 2. | 11 | 21 | 22
 * recoveries: 8
 * run: --profile {paper,ext4} --data journal --sector 1 --block 2
 * outcomes: - | "" | 11 | 22
 * recoveries: 4
 * run: --profile ext4 --data {ordered,writeback} --sector 1 --block 2
 * outcomes: - | "" | .. | 11 | 21 | 22
 * recoveries: 6
 */
#include "litmus.h"

int main(void) {
  int foo = open_to("foo", O_RDWR | O_CREAT);
  pwrite_text(foo, "11", 0);
  pwrite_text(foo, "22", 0);
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(!holds("foo", "12"));
}
