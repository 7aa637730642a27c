/* Four threads append twice each, 2 bytes at a time, to one file. There are 2520 orders, and recovery asks for the
 * size
 * alone: to it they are one.
 * threads: --profile paper --sector 1 --block 2
 * outcomes: 0 | 2 | 4 | 6 | 8 | 10 | 12 | 14 | 16
 * executions: 2520
 * recoveries: 9
 * paper-count: 22680
 */
#include "threads.h"

static void* work(void* number) {
  char text[3] = {(char)('a' + (long)number), (char)('a' + (long)number), 0};
  int fd = open_to("file", O_WRONLY | O_APPEND);
  write_text(fd, text);
  write_text(fd, text);
  return NULL;
}

int main(void) {
  open_to("file", O_WRONLY | O_CREAT);
  crashcut_barrier();
  run_threads(4, work);
  return 0;
}

void crashcut_recover(void) { show_size("file"); }
