// mend: fsync the directory . before the crashcut_mark
#include "mend.h"

int main(void) {
  write_file("secret", "key");
  crashcut_barrier();
  unlink("secret");
  // mended: sync_path(".");
  crashcut_mark("removed");
  return 0;
}

void crashcut_recover(void) { assert(!crashcut_reached("removed") || !exists("secret")); }
