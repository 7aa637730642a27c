/* A direct write inside the size that the running system sees, but beyond the size on the disk: when it returns the
 * latter reaches to its end, after the data. In the paper it is a write like any other.
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: -,"" | -,........{....,cccc} | {-,b},aaaa | {-,b},aaaa....{....,cccc}
 * recoveries: 9
 * run: --profile ext4 --data journal --sector 4 --block 4
 * outcomes: -,"" | -,........cccc | {-,b},aaaa....cccc
 * recoveries: 4
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: {-,b},"" | {-,b},{....,aaaa}....cccc
 * recoveries: 6
 * run: --profile paper --data journal --sector 4 --block 4
 * outcomes: -,"" | -,........cccc | {-,b},aaaa....cccc
 * recoveries: 4
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: {-,b},"" | {-,b},{....,aaaa}....{....,cccc}
 * recoveries: 10
 */
#include "litmus.h"

static const char text[] __attribute__((aligned(4))) = "aaaa";

int main(void) {
  int foo = (int)must(creat("foo", 0644));
  crashcut_barrier();
  pwrite_text(foo, "cccc", 8);
  must(pwrite(open_to("foo", O_WRONLY | O_DIRECT), text, 4, 0));
  must(creat("b", 0644));
  return 0;
}

void crashcut_recover(void) {
  show_name("b");
  show_text("foo");
}
