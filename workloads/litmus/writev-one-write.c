/* writev is one write: three pieces that fill a sector are there together or not at all. Recovery reads them by
 * readv.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: old! | a+bc+d
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  struct iovec pieces[] = {{"a", 1}, {"bc", 2}, {"d", 1}};
  must(writev(open_to("foo", O_WRONLY), pieces, 3));
  return 0;
}

void crashcut_recover(void) {
  char a[2] = "", bc[3] = "", d[2] = "";
  struct iovec pieces[] = {{a, 1}, {bc, 2}, {d, 1}};
  must(readv(open_to("foo", O_RDONLY), pieces, 3));
  show(strcmp(bc, "bc") ? "%s%s%s" : "%s+%s+%s", a, bc, d);
}
