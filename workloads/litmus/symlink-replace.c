/* The current version is switched by a new link renamed over the old one: always one of the two.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: v1 | v2
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("v1", "1");
  put("v2", "2");
  must(symlink("v1", "current"));
  crashcut_barrier();
  must(symlink("v2", "current.new"));
  must(rename("current.new", "current"));
  return 0;
}

void crashcut_recover(void) {
  char target[16] = "";
  assert(readlink("current", target, sizeof target - 1) == 2);
  show("%s", target);
  assert(exists("current"));
}
