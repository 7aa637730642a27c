// mend: fdatasync two before the rename
#include "mend.h"

int main(void) {
  write_file("one", "text");
  assert(symlink("one", "current") == 0);
  crashcut_barrier();
  write_file("two", "more");
  assert(symlink("two", "next") == 0);
  // mended: sync_path("two");
  rename("next", "current");
  return 0;
}

void crashcut_recover(void) { assert(holds("current", "text") || holds("current", "more")); }
