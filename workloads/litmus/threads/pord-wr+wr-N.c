/* Four threads make a file of their own each and write 4 bytes to it. Names come in the order of the journal, a file
 * grows block by block after it was made. Recovery opens all four and, where all are there, asks for their sizes: the
 * names that are there where some are not, 15 ways, or 0, 2 or 4 bytes of each, 81 ways.
 * threads: --profile paper --sector 1 --block 2
 * outcome-count: 96
 * executions: 1
 * recoveries: 96
 * paper-count: 6240
 */
#include "threads.h"

static const char* const kNames[] = {"a", "b", "c", "d"};

static void* work(void* number) {
  int fd = open_to(kNames[(long)number], O_WRONLY | O_CREAT | O_TRUNC);
  write_text(fd, "1111");
  must(close(fd));
  return NULL;
}

int main(void) {
  run_threads(4, work);
  return 0;
}

/* All four are opened before the first size is asked for. */
void crashcut_recover(void) {
  int files[4], missing = 0;
  for (int i = 0; i < 4; ++i) {
    files[i] = open(kNames[i], O_RDONLY);
    missing += files[i] < 0;
  }
  for (int i = 0; i < 4; ++i) {
    if (missing) show("%s", files[i] < 0 ? "-" : kNames[i]);
    if (!missing) show("%ld", (long)lseek(files[i], 0, SEEK_END));
  }
}
