/* A hole is put behind data that is not written yet. The kernel writes out what moves and waits, and leaves what lies
 * before it as it was (ext4_insert_range): the file is whole by its size, and its beginning may be NULs.
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: "" | {....,aaaa} | {....,aaaa}{....,bbbb} | {....,aaaa}....bbbb
 * recoveries: 9
 * run: --profile ext4 --data journal --sector 4 --block 4
 * outcomes: "" | aaaa | aaaabbbb | aaaa....bbbb
 * recoveries: 4
 * run: --profile paper --data {ordered,journal} --sector 4 --block 4
 * outcomes: "" | aaaa | aaaa{bbbb,....} | aaaa....bbbb
 * recoveries: 5
 * run: --profile paper --data writeback --sector 4 --block 4
 * outcomes: "" | {....,aaaa} | {....,aaaa}{....,bbbb} | {....,aaaa}{....,bbbb}{....,bbbb}
 * recoveries: 21
 */
#include "litmus.h"

int main(void) {
  int foo = (int)must(creat("foo", 0644));
  crashcut_barrier();
  pwrite_text(foo, "aaaabbbb", 0);
  must(fallocate(foo, FALLOC_FL_INSERT_RANGE, 4, 4));
  return 0;
}

void crashcut_recover(void) { show_text("foo"); }
