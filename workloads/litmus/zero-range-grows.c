/* Zeroing beyond the end makes the file longer: zeros and size together.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: AAAA | AAAA....
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("foo", "AAAA");
  crashcut_barrier();
  must(fallocate(open_to("foo", O_RDWR), FALLOC_FL_ZERO_RANGE, 4, 4));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
