/* A new hard link and the count of links change in one transaction: the count is never one that the names do not
 * have.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: 1,- | 2,b
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("a", "A");
  crashcut_barrier();
  must(link("a", "b"));
  return 0;
}

void crashcut_recover(void) {
  struct stat now;
  must(stat("a", &now));
  show("%d", (int)now.st_nlink);
  show_name("b");
}
