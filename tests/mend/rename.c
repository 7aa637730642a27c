// mend: fdatasync notes.tmp before the rename
#include "mend.h"

int main(void) {
  write_file("notes.txt", "old notes");
  crashcut_barrier();
  int fd = open_new("notes.tmp");
  put(fd, "new notes");
  // mended: fdatasync(fd);
  close(fd);
  rename("notes.tmp", "notes.txt");
  return 0;
}

void crashcut_recover(void) { assert(holds("notes.txt", "old notes") || holds("notes.txt", "new notes")); }
