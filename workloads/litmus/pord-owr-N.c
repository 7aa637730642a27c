/* Many overwrites; recovery looks at one byte, so there are two recoveries however many writes there were.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 1 --block 2
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 1 --block 2 -- 30
 * outcomes: 0 | 1
 * recoveries: 2
 * paper-count: 2
 */
#include "litmus.h"

int main(int argc, char** argv) {
  int count = argc > 1 ? atoi(argv[1]) : 5;
  int foo = open_to("foo", O_WRONLY | O_CREAT);
  for (int i = 0; i < count; ++i) write_text(foo, "00");
  crashcut_barrier();
  for (int i = 0; i < count; ++i) pwrite_text(foo, "11", 2 * i);
  return 0;
}

void crashcut_recover(void) { show_bytes("foo", 0, 1); }
