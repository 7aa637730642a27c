/* Truncate and write again: the old text goes first, the new one comes later, in every mode. Two blocks, and
 * writeback takes them one by one. ext4 writes fresh blocks, NULs until then; in the paper a file keeps its place
 * on the disk and data waits for no truncation, so new blocks can lie between old ones, below the old size or
 * (writeback) the new.
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: old!old! | "" | new! | new!new!
 * recoveries: 4
 * violation: yes
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: "" | new! | {old!,new!}{old!,new!}
 * recoveries: 7
 * violation: yes
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: "" | {old!,new!} | {old!,new!}{old!,new!}
 * recoveries: 11
 * violation: yes
 * run: --profile ext4 --data ordered --sector 4 --block 4
 * outcomes: old!old! | "" | {....,new!} | {....,new!}{....,new!}
 * recoveries: 8
 * violation: yes
 * run: --profile ext4 --data writeback --sector 4 --block 4
 * outcomes: old!old! | "" | .... | new! | ........ | ....new! | new!.... | new!new! | new!old! | old!new!
 * recoveries: 11
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!old!");
  crashcut_barrier();
  put("foo", "new!new!");
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(holds("foo", "old!old!") || holds("foo", "new!new!"));
}
