/* A file is created, then another grows: growth is metadata and comes after the creation. What lies below the new
 * size is another matter: see the modes.
 * run: --profile {paper,ext4} --data journal --sector 1 --block 2
 * run: --profile paper --data ordered --sector 1 --block 2
 * outcomes: -,"" | bar,"" | bar,11
 * recoveries: 3
 * paper-count: 3
 * run: --profile paper --data writeback --sector 1 --block 2
 * outcomes: -,"" | bar,{"",..,1.,11}
 * recoveries: 5
 * run: --profile ext4 --data {ordered,writeback} --sector 1 --block 2
 * outcomes: -,"" | bar,{"",..,11}
 * recoveries: 4
 */
#include "litmus.h"

int main(void) {
  int foo = (int)must(creat("foo", 0644));
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
