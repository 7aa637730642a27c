/* When a direct write returns the drive has the data, and every later commit flushes the drive: a file created
 * afterwards is never there without it. With barrier=0 nothing flushes. (The paper does not know O_DIRECT: an
 * overwrite like any other.)
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 4 --block 4
 * run: --profile paper --data journal --sector 4 --block 4
 * outcomes: -,old! | -,new! | b,new!
 * recoveries: 3
 * run: --profile paper --data {ordered,writeback} --sector 4 --block 4
 * run: --profile ext4 --data ordered -o barrier=0 --sector 4 --block 4
 * outcomes: {-,b},{old!,new!}
 * recoveries: 4
 * violation: yes
 */
#include "litmus.h"

static const char text[] __attribute__((aligned(4))) = "new!";

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  must(pwrite(open_to("foo", O_WRONLY | O_DIRECT), text, 4, 0));
  must(creat("b", 0644));
  return 0;
}

void crashcut_recover(void) {
  show_name("b");
  show_text("foo");
  assert(!exists("b") || holds("foo", "new!"));
}
