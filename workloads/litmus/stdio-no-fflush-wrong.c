/* fsync before the text has left stdio's buffer syncs an empty file; fclose writes it when it is too late.
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: old! | "" | new!
 * recoveries: 3
 * violation: yes
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: old! | "" | .... | new!
 * recoveries: 4
 * violation: yes
 * run: --profile ext4 --data writeback --sector 4 --block 4
 * outcomes: old! | "" | .... | new!
 * recoveries: 5
 * violation: yes
 * run: --profile ext4 --data ordered --sector 4 --block 4
 * outcomes: old! | .... | new!
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
  FILE* file = fopen("tmp", "w");
  assert(file && fprintf(file, "%s!", "new") == 4);
  must(fsync(fileno(file)));
  must(fclose(file));
  must(rename("tmp", "foo"));
  return 0;
}

void crashcut_recover(void) {
  show_text("foo");
  assert(holds("foo", "old!") || holds("foo", "new!"));
}
