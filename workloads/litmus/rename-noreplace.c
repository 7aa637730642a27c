/* RENAME_NOREPLACE refuses a name that is taken, and then nothing has changed; a free name it gives as rename does.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: A,B,- | -,B,A
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("a", "A");
  put("b", "B");
  crashcut_barrier();
  assert(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_NOREPLACE) == -1 && errno == EEXIST);
  must(renameat2(AT_FDCWD, "a", AT_FDCWD, "c", RENAME_NOREPLACE));
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  show_text("b");
  show_text("c");
}
