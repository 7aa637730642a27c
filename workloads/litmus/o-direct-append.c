/* A direct write of a new block is allocated after its data, in the call (ext4_dio_write_iter): no NULs, unlike
 * write-new-file. The paper's writeback mode has them anyway.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile paper --data journal --sector 4 --block 4
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: "" | new!
 * recoveries: 2
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: "" | .... | new!
 * recoveries: 3
 */
#include "litmus.h"

static const char text[] __attribute__((aligned(4))) = "new!";

int main(void) {
  must(creat("foo", 0644));
  crashcut_barrier();
  must(pwrite(open_to("foo", O_WRONLY | O_DIRECT), text, 4, 0));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
