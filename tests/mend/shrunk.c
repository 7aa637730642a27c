// mend: fdatasync f before the crashcut_mark
#include "mend.h"

int main(void) {
  write_file("f", "0123456789");
  crashcut_barrier();
  int fd = open("f", O_RDWR);
  assert(ftruncate(fd, 4) == 0);
  // mended: fdatasync(fd);
  crashcut_mark("shrunk");
  return 0;
}

void crashcut_recover(void) { assert(!crashcut_reached("shrunk") || holds("f", "0123")); }
