/* Without fsync the name overtakes the data; auto_da_alloc does not look at linkat.
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: - | "" | new!
 * recoveries: 3
 * violation: yes
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: - | "" | .... | new!
 * recoveries: 4
 * violation: yes
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: - | new!
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  crashcut_barrier();
  int fd = open_to(".", O_TMPFILE | O_RDWR);
  write_text(fd, "new!");
  must(linkat(fd, "", AT_FDCWD, "foo", AT_EMPTY_PATH));
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(!exists("foo") || holds("foo", "new!"));
}
