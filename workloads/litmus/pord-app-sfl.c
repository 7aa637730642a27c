/* Two appends to one file: the size follows the data, so the second is never there without the first. Without that
 * rule (writeback), and where blocks are shown one by one after the size has grown (ext4), the second can be alone.
 * run: --profile paper --data ordered --sector 1 --block 2
 * outcomes: 11 | 1122 | 112233
 * recoveries: 3
 * paper-count: 3
 * run: --profile {paper,ext4} --data journal --sector 1 --block 2
 * outcomes: 11 | 1122 | 112233
 * recoveries: 3
 * run: --profile paper --data writeback --sector 1 --block 2
 * outcomes: 11 | 11{..,2.,22} | 11{..,2.,22}{..,3.,33}
 * recoveries: 13
 * violation: yes
 * run: --profile ext4 --data {ordered,writeback} --sector 1 --block 2
 * outcomes: 11 | 11{..,22} | 11{..,22}{..,33}
 * recoveries: 7
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  int foo = open_to("foo", O_WRONLY | O_CREAT | O_APPEND);
  write_text(foo, "11");
  crashcut_barrier();
  write_text(foo, "22");
  write_text(foo, "33");
  return 0;
}

void crashcut_recover(void) {
  char text[TEXT_MOST + 1];
  show_text("foo");
  read_text("foo", text);
  assert(strchr(text, '3') == NULL || strncmp(text, "1122", 4) == 0);
}
