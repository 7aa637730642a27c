// mend: fdatasync t before each rename
#include "mend.h"

int main(void) {
  write_file("f", "0");
  crashcut_barrier();
  for (int i = 1; i <= 3; ++i) {
    char text[2] = {(char)('0' + i), 0};
    int fd = open_new("t");
    put(fd, text);
    // mended: fdatasync(fd);
    close(fd);
    rename("t", "f");
  }
  return 0;
}

void crashcut_recover(void) { assert(holds("f", "0") || holds("f", "1") || holds("f", "2") || holds("f", "3")); }
