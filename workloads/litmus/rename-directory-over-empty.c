/* A directory replaces an empty one: its name is there all the time, with or without the file.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: d,e,- | -,e,F
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  must(mkdir("d", 0755));
  must(mkdir("e", 0755));
  put("d/f", "F");
  crashcut_barrier();
  must(rename("d", "e"));
  return 0;
}

void crashcut_recover(void) {
  show_name("d");
  show_name("e");
  show_text("e/f");
}
