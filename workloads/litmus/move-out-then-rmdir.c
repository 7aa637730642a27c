/* A file is moved out of a directory that is then removed: never both gone.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: d,F,- | d,-,F | -,-,F
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  must(mkdir("d", 0755));
  put("d/f", "F");
  crashcut_barrier();
  must(rename("d/f", "f"));
  must(rmdir("d"));
  return 0;
}

void crashcut_recover(void) {
  show_name("d");
  show_text("d/f");
  show_text("f");
  assert(exists("d/f") != exists("f"));
}
