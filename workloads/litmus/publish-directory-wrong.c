/* Without fsync the files can be empty or NULs in a directory that is there; in one journal they cannot.
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: -,-,- | done,{"",A},{"",B}
 * recoveries: 5
 * violation: yes
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,-,- | done,{"",.,A},{"",.,B}
 * recoveries: 10
 * violation: yes
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: -,-,- | done,A,B
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  crashcut_barrier();
  must(mkdir("new", 0755));
  put("new/a", "A");
  put("new/b", "B");
  must(rename("new", "done"));
  return 0;
}

void crashcut_recover(void) {
  show_name("done");
  show_text("done/a");
  show_text("done/b");
  assert(!exists("done") || (holds("done/a", "A") && holds("done/b", "B")));
}
