/* A recovery that removes what an interrupted save left over: it sees its own changes. With --depth 2 the removal
 * is interrupted too: the leftover is still there, or not.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: old!,- | old!,tmp | new!,-
 * recoveries: 3
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --depth 2 --sector 4 --block 4
 * outcomes: old!,- | old!,tmp | new!,-
 * recoveries: 5
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  must(creat("tmp", 0644));
  must(unlink("tmp"));
  crashcut_barrier();
  put_synced("tmp", "new!");
  must(rename("tmp", "foo"));
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  show_name("tmp");
  if (exists("tmp")) must(unlink("tmp"));
  assert(!exists("tmp"));
}
