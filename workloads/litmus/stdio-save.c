/* Saved through stdio, all the way: fflush hands the text to the kernel, fsync to the disk.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: old! | new!
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  FILE* file = fopen("tmp", "w");
  assert(file && fprintf(file, "%s!", "new") == 4);
  must(fflush(file));
  must(fsync(fileno(file)));
  must(fclose(file));
  must(rename("tmp", "foo"));
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(holds("foo", "old!") || holds("foo", "new!"));
}
