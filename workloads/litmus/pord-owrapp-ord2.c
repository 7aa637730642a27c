/* An overwrite, then a write that leaves a hole of one byte: bytes 3 and 4 come with the new bytes 0 and 1, in the
 * paper's ordered mode; see pord-owrapp-ord for the others.
 * run: --profile paper --data ordered --sector 1 --block 2
 * outcomes: 11 | 21 | 22 | 22.2 | 22.22
 * recoveries: 5
 * paper-count: 5
 * run: --profile {paper,ext4} --data journal --sector 1 --block 2
 * outcomes: 11 | 22 | 22.2 | 22.22
 * recoveries: 4
 * run: --profile paper --data writeback --sector 1 --block 2
 * run: --profile ext4 --data {ordered,writeback} --sector 1 --block 2
 * outcomes: {11,21,22} | {11,21,22}.{.,2} | {11,21,22}.{.,2}{.,2}
 * recoveries: 21
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  int foo = open_to("foo", O_RDWR | O_CREAT);
  write_text(foo, "11");
  crashcut_barrier();
  pwrite_text(foo, "22", 0);
  pwrite_text(foo, "22", 3);
  return 0;
}

void crashcut_recover(void) {
  char text[TEXT_MOST + 1];
  show_text("foo");
  read_text("foo", text);
  assert(strlen(text) < 4 || text[3] != '2' || strncmp(text, "22", 2) == 0);
}
