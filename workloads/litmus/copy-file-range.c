/* copy_file_range is a write like any other.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: "" | AAAA
 * recoveries: 2
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: "" | .... | AAAA
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("a", "AAAA");
  must(creat("b", 0644));
  crashcut_barrier();
  must(copy_file_range(open_to("a", O_RDONLY), NULL, open_to("b", O_WRONLY), NULL, 4, 0));
  return 0;
}

void crashcut_recover(void) { show_text("b"); }
