/* A block is written into a hole of a file that keeps its size. lseek(SEEK_DATA) says where data lies: the hole is
 * one until the block is converted. (The paper has no holes: its blocks are there from the start.)
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: hole,AAAA........ | 4,AAAABBBB....
 * recoveries: 2
 * run: --profile paper --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: 4,AAAA........ | 4,AAAABBBB....
 * recoveries: 2
 */
#include "litmus.h"

int main(void) {
  put("foo", "AAAA");
  must(truncate("foo", 12));
  crashcut_barrier();
  pwrite_text(open_to("foo", O_WRONLY), "BBBB", 4);
  return 0;
}

void crashcut_recover(void) {
  off_t data = lseek(open_to("foo", O_RDONLY), 4, SEEK_DATA);
  if (data < 0)
    show("hole");
  else
    show("%ld", (long)data);
  show_text("foo");
}
