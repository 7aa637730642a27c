// mend: fsync f before the crashcut_mark
#include "mend.h"

int main(void) {
  write_file("f", "secret");
  crashcut_barrier();
  int fd = open("f", O_RDWR);
  assert(fchmod(fd, 0600) == 0);
  // mended: fsync(fd);
  crashcut_mark("hidden");
  return 0;
}

void crashcut_recover(void) {
  struct stat found;
  assert(stat("f", &found) == 0);
  assert(!crashcut_reached("hidden") || (found.st_mode & 0777) == 0600);
}
