/* Delayed allocation: the data was written before the other file's block was freed, and gets that block all the same
 * when writeback comes later. Not before the unlink, so not where the mark is still ahead; and not where an fsync has
 * allocated the block before ("synced"), nor with nodelalloc.
 * run: --profile {paper,ext4} --data {ordered,journal} --sector 4 --block 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data writeback --sector 4 --block 4 -- synced
 * run: --profile ext4 --data writeback -o nodelalloc --sector 4 --block 4
 * outcomes: -,old! | written,- | written,old!
 * recoveries: 3
 * run: --profile ext4 --data writeback --sector 4 --block 4
 * outcomes: -,old! | written,- | written,new! | written,old!
 * recoveries: 4
 */
#include "litmus.h"

int main(int argc, char** argv) {
  put("a", "old!");
  crashcut_barrier();
  int b = open_to("b", O_WRONLY | O_CREAT);
  write_text(b, "new!");
  if (argc > 1 && strcmp(argv[1], "synced") == 0) must(fsync(b));
  crashcut_mark("written");
  must(unlink("a"));
  return 0;
}

void crashcut_recover(void) {
  show_mark("written");
  show_text("a");
}
