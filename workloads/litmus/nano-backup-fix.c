/* nano-backup-old with the missing fsync: before the old text goes, the backup is whole.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 1 --block 2
 * outcomes: 5,{-,backup} | {0,2,4},backup,5 | {6,8,10,12,14},backup
 * recoveries: 10
 * paper-count: 10
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
  must(fsync(backup));
  must(close(backup));
  foo = open_to("foo.txt", O_WRONLY | O_TRUNC);
  write_text(foo, "fourteen bytes");
  must(close(foo));
  return 0;
}

void crashcut_recover(void) {
  int foo = open("foo.txt", O_RDONLY), backup = open("foo.txt~", O_RDONLY);
  long size = lseek(foo, 0, SEEK_END);
  show("%ld", size);
  show("%s", backup < 0 ? "-" : "backup");
  if (size >= 5 || backup < 0) return;
  show("%ld", lseek(backup, 0, SEEK_END));
  assert(lseek(backup, 0, SEEK_END) == 5);
}
