/* A tree is made from the root down: what is there is a prefix.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,-,- | a,-,- | a,a/b,- | a,a/b,a/b/f
 * recoveries: 4
 */
#include "litmus.h"

int main(void) {
  must(mkdir("a", 0755));
  must(mkdir("a/b", 0755));
  must(creat("a/b/f", 0644));
  return 0;
}

void crashcut_recover(void) {
  show_name("a");
  show_name("a/b");
  show_name("a/b/f");
}
