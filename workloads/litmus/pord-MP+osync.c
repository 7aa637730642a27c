/* Message passing by descriptors that are O_SYNC: each write is durable before the next begins.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 1 --block 2
 * outcomes: 1,1 | 1,42 | 42,42
 * recoveries: 3
 * paper-count: 3
 */
#include "litmus.h"

static int put_one(const char* name) {
  int fd = open_to(name, O_RDWR | O_CREAT | O_SYNC);
  must(write(fd, "\001", 1));
  return fd;
}

int main(void) {
  int x = put_one("x"), y = put_one("y");
  crashcut_barrier();
  must(pwrite(x, "\052", 1, 0)); /* 42 */
  must(pwrite(y, "\052", 1, 0));
  return 0;
}

static int value_of(const char* name) {
  char byte = 0;
  int fd = open_to(name, O_RDONLY);
  must(pread(fd, &byte, 1, 0));
  must(close(fd));
  return byte;
}

void crashcut_recover(void) {
  int y = value_of("y"), x = value_of("x");
  show("%d", y);
  show("%d", x);
  assert(!(y == 42 && x == 1));
}
