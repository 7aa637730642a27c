/* An append fills a part-filled last block and goes on into a new one. Where one folio holds both blocks the size on
 * the disk is left to the new one's writeback (ext4_da_should_update_i_disksize), so a file created later may be there
 * with the old size; where it does not, the size of the first part is in the journal at once.
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 4 --block 4
 * outcomes: {-,b},{2,4,8}
 * recoveries: 6
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: -,{2,4} | {-,b},8
 * recoveries: 4
 */
#include "litmus.h"

int main(void) {
  put("foo", "aa");
  crashcut_barrier();
  write_text(open_to("foo", O_WRONLY | O_APPEND), "bbcccc");
  must(creat("b", 0644));
  return 0;
}

void crashcut_recover(void) {
  show_name("b");
  show_size("foo");
}
