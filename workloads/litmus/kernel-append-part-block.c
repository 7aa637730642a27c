/* An append inside a part-filled block: the block is mapped, so the write journals the new size at once
 * (ext4_da_write_end, ext4_write_end) and nothing binds the data to that transaction. data=journal binds it.
 * run: --profile ext4 --data {ordered,writeback} --sector 4096 --block 4096
 * run: --profile ext4 --data ordered -o {noauto_da_alloc,nodelalloc} --sector 4096 --block 4096
 * outcomes: short | grown over zeros | whole
 * recoveries: 3
 * run: --profile ext4 --data journal --sector 4096 --block 4096
 * outcomes: short | whole
 * recoveries: 2
 */
#include "litmus.h"

static char text[1000];

int main(void) {
  int foo = open_to("foo", O_WRONLY | O_CREAT);
  memset(text, 'o', sizeof text);
  must(write(foo, text, sizeof text));
  crashcut_barrier();
  memset(text, 'n', sizeof text);
  must(write(foo, text, sizeof text));
  return 0;
}

void crashcut_recover(void) {
  char appended[sizeof text];
  ssize_t count = pread(open_to("foo", O_RDONLY), appended, sizeof appended, sizeof text);
  assert(count == 0 || (count == sizeof appended && (*appended == 'n' || *appended == '\0')));
  show(count == 0 ? "short" : *appended ? "whole" : "grown over zeros");
}
