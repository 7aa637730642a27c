/* nano's save of a file with a backup that is not synced: the truncation comes after the backup's creation and
 * after nothing else, so every length of the backup meets every length of the new text. One journal has the backup
 * first.
 * run: --profile paper --data ordered --sector 1 --block 2
 * outcomes: 5,{-,0,2,4,5} | {0,2,4,6,8,10,12,14},{0,2,4,5}
 * recoveries: 37
 * paper-count: 46
 * run: --profile paper --data writeback --sector 1 --block 2
 * run: --profile ext4 --data {ordered,writeback} --sector 1 --block 2
 * outcomes: 5,{-,0,2,4,5} | {0,2,4,6,8,10,12,14},{0,2,4,5}
 * recoveries: 37
 * run: --profile {paper,ext4} --data journal --sector 1 --block 2
 * outcomes: 5,{-,0,2,4,5} | {0,2,4,6,8,10,12,14},5
 * recoveries: 13
 */
#include "litmus.h"

/* An editor's save with a backup: copy the old file, then write over it. "data" goes with its NUL, 5 bytes. */
int main(void) {
  int foo = open_to("foo.txt", O_WRONLY | O_CREAT);
  must(write(foo, "data", 5));
  crashcut_barrier();
  unlink("foo.txt~"); /* not there yet */
  int backup = open_to("foo.txt~", O_WRONLY | O_CREAT | O_EXCL);
  must(write(backup, "data", 5));
  must(close(backup));
  foo = open_to("foo.txt", O_WRONLY | O_TRUNC);
  write_text(foo, "fourteen bytes");
  must(close(foo));
  return 0;
}

void crashcut_recover(void) {
  show_size("foo.txt");
  show_size("foo.txt~");
}
