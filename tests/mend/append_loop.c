// mend: fdatasync log after each write
#include "mend.h"

int main(void) {
  const char* marks[] = {"first", "second", "third", "fourth"};
  int fd = open("log", O_CREAT | O_WRONLY | O_APPEND, 0600);
  assert(fd >= 0);
  crashcut_barrier();
  for (int i = 0; i < 4; ++i) {
    put(fd, "record\n");
    // mended: fdatasync(fd);
    crashcut_mark(marks[i]);
  }
  return 0;
}

void crashcut_recover(void) {
  struct stat status;
  assert(stat("log", &status) == 0);
  if (crashcut_reached("first")) assert(status.st_size >= 7);
  if (crashcut_reached("second")) assert(status.st_size >= 14);
  if (crashcut_reached("third")) assert(status.st_size >= 21);
  if (crashcut_reached("fourth")) assert(status.st_size >= 28);
}
