/* Replace by rename without fsync, the new file's space preallocated behind its end. auto_da_alloc starts writeback
 * only where blocks are reserved for delayed allocation (ext4_alloc_da_blocks: i_reserved_data_blocks), and these
 * are allocated already: so here the empty file shows that save-by-rename-wrong does not.
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: old! | "" | .... | new!
 * recoveries: 4
 * violation: yes
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: old! | "" | new!
 * recoveries: 3
 * violation: yes
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: old! | new!
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  int tmp = open_to("tmp", O_WRONLY | O_CREAT);
  must(fallocate(tmp, FALLOC_FL_KEEP_SIZE, 0, 4));
  write_text(tmp, "new!");
  must(close(tmp));
  must(rename("tmp", "foo"));
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(holds("foo", "old!") || holds("foo", "new!"));
}
