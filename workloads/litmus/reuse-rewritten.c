/* A file of two blocks is cut to nothing and written again, one block. In data=writeback the new block may take the
 * place of either old one: under the old size one block is new and one is old, in both ways, until the fsync has
 * returned.
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: "",- | new!,- | new!,saved | new!old2,- | old1old2,-
 * recoveries: 5
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: "",- | new!,- | new!,saved | old1old2,-
 * recoveries: 4
 * run: --profile ext4 --data ordered --sector 4 --block 4
 * outcomes: "",- | ....,- | new!,- | new!,saved | old1old2,-
 * recoveries: 5
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: "",- | new!,- | new!,saved | new!old2,- | old1,- | old1old2,-
 * recoveries: 6
 * run: --profile ext4 --data writeback --sector 4 --block 4
 * outcomes: "",- | ....,- | new!,- | new!,saved | new!old2,- | old1new!,- | old1old2,-
 * recoveries: 7
 */
#include "litmus.h"

int main(void) {
  put("a", "old1old2");
  crashcut_barrier();
  int a = open_to("a", O_WRONLY | O_TRUNC);
  write_text(a, "new!");
  must(fsync(a));
  crashcut_mark("saved");
  return 0;
}

void crashcut_recover(void) {
  show_text("a");
  if (show_mark("saved")) assert(holds("a", "new!"));
}
