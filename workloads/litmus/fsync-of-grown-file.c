/* fsync of one file commits the journal, and with it the creation of another that went before: by luck, not by
 * contract.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,- | -,b | said,b
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("a", "AAAA");
  crashcut_barrier();
  must(creat("b", 0644));
  int a = open_to("a", O_WRONLY | O_APPEND);
  write_text(a, "aaaa");
  must(fsync(a));
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_name("b");
  assert(!said || exists("b"));
}
