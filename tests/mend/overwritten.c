// mend: fdatasync f before the crashcut_mark
#include "mend.h"

int main(void) {
  write_file("f", "old");
  crashcut_barrier();
  int fd = open("f", O_RDWR);
  assert(pwrite(fd, "new", 3, 0) == 3);
  // mended: fdatasync(fd);
  crashcut_mark("saved");
  return 0;
}

void crashcut_recover(void) { assert(!crashcut_reached("saved") || holds("f", "new")); }
