/* An append inside a part-filled block: the size can grow over zeros first, and the sectors come in order. In the
 * paper's writeback mode and in ext4 the size waits for no data at all; the states are the same. One journal: both
 * or neither.
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 1 --block 4
 * outcomes: ab | ab.. | abc. | abcd
 * recoveries: 4
 * run: --profile {paper,ext4} --data journal --sector 1 --block 4
 * outcomes: ab | abcd
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("foo", "ab");
  crashcut_barrier();
  write_text(open_to("foo", O_WRONLY | O_APPEND), "cd");
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
