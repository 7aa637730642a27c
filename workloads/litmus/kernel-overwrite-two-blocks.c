/* Two written blocks overwritten in place: data only, each block goes out when it likes. data=journal was seen to
 * leave old or new; its write takes a handle a block (ext4_write_begin), a commit may come between them, so the
 * first block may be new alone, never the second.
 * run: --profile ext4 --data {ordered,writeback} --sector 4096 --block 4096
 * run: --profile ext4 --data ordered -o {noauto_da_alloc,nodelalloc} --sector 4096 --block 4096
 * outcomes: {o,n}{o,n}
 * recoveries: 4
 * run: --profile ext4 --data journal --sector 4096 --block 4096
 * outcomes: oo | no | nn
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  int foo = open_to("foo", O_RDWR | O_CREAT);
  write_blocks(foo, "oo");
  crashcut_barrier();
  must(lseek(foo, 0, SEEK_SET));
  write_blocks(foo, "nn");
  return 0;
}

void crashcut_recover(void) { show_blocks("foo"); }
