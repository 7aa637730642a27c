/* Both times of a file change in one step.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: 1,2 | 3,4
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  int foo = (int)must(creat("foo", 0644));
  struct timespec before[2] = {{1, 0}, {2, 0}}, after[2] = {{3, 0}, {4, 0}};
  must(futimens(foo, before));
  crashcut_barrier();
  must(futimens(foo, after));
  return 0;
}

void crashcut_recover(void) {
  struct stat now;
  must(stat("foo", &now));
  show("%ld", (long)now.st_atime);
  show("%ld", (long)now.st_mtime);
}
