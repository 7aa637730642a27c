/* Four files are made one after the other; recovery asks for one size only, so what became of the other three is
 * never decided. A file grows block by block, after it was created.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 1 --block 2
 * outcomes: - | 0 | 2 | 4
 * recoveries: 4
 * paper-count: 5
 */
#include "litmus.h"

int main(void) {
  const char* names[] = {"a", "b", "c", "d"};
  for (int i = 0; i < 4; ++i) {
    int fd = open_to(names[i], O_WRONLY | O_CREAT | O_TRUNC);
    pwrite_text(fd, "1111", 0);
    must(close(fd));
  }
  return 0;
}

void crashcut_recover(void) { show_size("a"); }
