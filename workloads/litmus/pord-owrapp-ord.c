/* One call overwrites a block and appends another: the size comes after all the data of the file that went before
 * it (the paper's ordered mode), so the new second block is never there with the old first. ext4 has the appended
 * block wait for its own data only.
 * run: --profile paper --data ordered --sector 1 --block 2
 * outcomes: 11 | 21 | 22 | 2222
 * recoveries: 4
 * paper-count: 4
 * run: --profile paper --data writeback --sector 1 --block 2
 * outcomes: {11,21,22} | {11,21,22}{..,2.,22}
 * recoveries: 12
 * violation: yes
 * run: --profile {paper,ext4} --data journal --sector 1 --block 2
 * outcomes: 11 | 22 | 2222
 * recoveries: 3
 * run: --profile ext4 --data {ordered,writeback} --sector 1 --block 2
 * outcomes: {11,21,22} | {11,21,22}{..,22}
 * recoveries: 9
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  int foo = open_to("foo", O_RDWR | O_CREAT);
  write_text(foo, "11");
  crashcut_barrier();
  pwrite_text(foo, "2222", 0);
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(!holds("foo", "1122"));
}
