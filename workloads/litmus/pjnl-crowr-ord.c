/* A file is created, then another is overwritten. Under data=journal the overwrite comes after the creation; in the
 * other modes it is no metadata and waits for nothing, sector by sector.
 * run: --profile {paper,ext4} --data journal --sector 1 --block 2
 * outcomes: -,00 | bar,00 | bar,11
 * recoveries: 3
 * paper-count: 6
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 1 --block 2
 * outcomes: {-,bar},{00,10,11}
 * recoveries: 6
 * violation: yes
 */
#include "litmus.h"

int main(void) {
  int foo = open_to("foo", O_RDWR | O_CREAT);
  write_text(foo, "00");
  crashcut_barrier();
  must(creat("bar", 0644));
  pwrite_text(foo, "11", 0);
  return 0;
}

void crashcut_recover(void) {
  show_name("bar");
  show_text("foo");
  assert(exists("bar") || !holds("foo", "11"));
}
