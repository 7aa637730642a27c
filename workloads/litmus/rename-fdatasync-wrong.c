/* fdatasync of a renamed file does not: nothing of the change is needed to read its data.
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: {-,said},{-,b}
 * recoveries: 4
 * violation: yes
 * run: --profile paper --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,- | -,b | said,b
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("a", "A");
  crashcut_barrier();
  must(rename("a", "b"));
  must(fdatasync(open_to("b", O_RDONLY)));
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_name("b");
  assert(!said || exists("b"));
}
