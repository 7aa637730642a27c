/* A file without a name is written and synced, then gets its name: whole or not there.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: - | new!
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  crashcut_barrier();
  int fd = open_to(".", O_TMPFILE | O_RDWR);
  write_text(fd, "new!");
  must(fsync(fd));
  must(linkat(fd, "", AT_FDCWD, "foo", AT_EMPTY_PATH));
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(!exists("foo") || holds("foo", "new!"));
}
