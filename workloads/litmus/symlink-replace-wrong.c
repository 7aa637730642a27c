/* The switch by unlink and symlink: between them there is no link.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: v1 | - | v2
 * recoveries: 3
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  must(symlink("v1", "current"));
  crashcut_barrier();
  must(unlink("current"));
  must(symlink("v2", "current"));
  return 0;
}

void crashcut_recover(void) {
  char target[16] = "-";
  ssize_t length = readlink("current", target, sizeof target - 1);
  show("%s", target);
  assert(length == 2);
}
