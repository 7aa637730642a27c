// mend: fsync the directory d before the crashcut_mark
#include "mend.h"

int main(void) {
  mkdir("d", 0755);
  crashcut_barrier();
  write_file("d/t", "text");
  sync_path("d/t");
  rename("d/t", "d/f");
  // mended: sync_path("d");
  crashcut_mark("saved");
  return 0;
}

void crashcut_recover(void) { assert(!crashcut_reached("saved") || holds("d/f", "text")); }
