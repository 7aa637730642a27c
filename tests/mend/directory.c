// mend: fsync the directory . before the crashcut_mark
#include "mend.h"

int main(void) {
  write_file("notes.txt", "old notes");
  crashcut_barrier();
  write_file("notes.tmp", "new notes");
  sync_path("notes.tmp");
  rename("notes.tmp", "notes.txt");
  // mended: sync_path(".");
  crashcut_mark("saved");
  return 0;
}

void crashcut_recover(void) { assert(!crashcut_reached("saved") || holds("notes.txt", "new notes")); }
