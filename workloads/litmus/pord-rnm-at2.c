/* Two renames of one file, each atomic: it has exactly one of the three names.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 1 --block 2
 * outcomes: foo,-,- | -,bar,- | -,-,qux
 * recoveries: 3
 * paper-count: 5
 */
#include "litmus.h"

int main(void) {
  put("foo", "111");
  crashcut_barrier();
  must(rename("foo", "bar"));
  must(rename("bar", "qux"));
  return 0;
}

void crashcut_recover(void) {
  show_name("foo");
  show_name("bar");
  show_name("qux");
  assert(exists("foo") + exists("bar") + exists("qux") == 1);
}
