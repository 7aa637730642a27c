/* fsync of a file that nothing changed has nothing to wait for (ext4_sync_file: i_sync_tid is an old one), so
 * another file's creation is not committed by it. The paper orders directory operations before every later sync.
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
  put("a", "AAAA");
  crashcut_barrier();
  must(creat("b", 0644));
  int a = open_to("a", O_WRONLY | O_APPEND);
  must(fsync(a));
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("said");
  show_name("b");
  assert(!said || exists("b"));
}
