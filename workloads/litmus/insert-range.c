/* A hole is put into the middle: one transaction. (The paper knows no such call.)
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: AAAABBBB | AAAA....BBBB
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("foo", "AAAABBBB");
  crashcut_barrier();
  must(fallocate(open_to("foo", O_RDWR), FALLOC_FL_INSERT_RANGE, 4, 4));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
