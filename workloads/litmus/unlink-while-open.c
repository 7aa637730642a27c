/* A file is overwritten through a descriptor after it was unlinked. The overwrite is data only and waits for no
 * directory operation, so a crash can bring the name back with the new bytes; one journal has the unlink first.
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 4 --block 4
 * outcomes: old! | new! | -
 * recoveries: 3
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: old! | -
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  int foo = open_to("foo", O_RDWR);
  must(unlink("foo"));
  pwrite_text(foo, "new!", 0);
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
