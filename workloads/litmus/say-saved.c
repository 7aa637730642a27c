/* Synced, then "saved!" is said: whoever heard it finds the file, name and all (ext4's fsync of a new file commits
 * the creation with it; the paper's directory operations come before every later sync). Before that, all states of
 * write-new-file.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: -,{-,"",new!} | saved,new!
 * recoveries: 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,{-,"",....,new!} | saved,new!
 * recoveries: 5
 */
#include "litmus.h"

int main(void) {
  crashcut_barrier();
  put_synced("foo", "new!");
  crashcut_mark("saved");
  return 0;
}

void crashcut_recover(void) {
  int said = show_mark("saved");
  show_text("foo");
  assert(!said || holds("foo", "new!"));
}
