/* The same calls relative to a directory's descriptor: a file is made in d, synced, and moved out of it.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: {-,"",F},- | -,F
 * recoveries: 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: {-,"",.,F},- | -,F
 * recoveries: 5
 */
#include "litmus.h"

int main(void) {
  must(mkdir("d", 0755));
  crashcut_barrier();
  int d = open_to("d", O_RDONLY | O_DIRECTORY);
  int f = (int)must(openat(d, "f", O_WRONLY | O_CREAT | O_EXCL, 0644));
  write_text(f, "F");
  must(fsync(f));
  must(renameat2(d, "f", AT_FDCWD, "g", 0));
  return 0;
}

void crashcut_recover(void) {
  show_text("d/f");
  show_text("g");
}
