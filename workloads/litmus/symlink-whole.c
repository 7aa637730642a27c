/* A symbolic link is in the inode, made with its name: it is there with its whole target or not at all.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: - | target
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  must(symlink("target", "s"));
  return 0;
}

void crashcut_recover(void) {
  char target[16] = "-";
  ssize_t length = readlink("s", target, sizeof target - 1);
  assert(length == -1 || length == 6);
  show("%s", target);
}
