/* A file is renamed away and a new one takes its name: directory operations are in order, and the new file grows
 * after them, so a short foo is there only beside bar.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 1 --block 2
 * outcomes: -,2 | bar,- | bar,0 | bar,1
 * recoveries: 4
 * paper-count: 6
 */
#include "litmus.h"

int main(void) {
  put("foo", "00");
  crashcut_barrier();
  must(rename("foo", "bar"));
  write_text((int)must(creat("foo", 0644)), "1");
  return 0;
}

void crashcut_recover(void) {
  show_name("bar");
  show_size("foo");
  assert(exists("bar") || size_of("foo") == 2);
}
