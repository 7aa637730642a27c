// none
#include "mend.h"

/* The flag is set before what it stands for. */
int main(void) {
  crashcut_barrier();
  write_file("done", "");
  write_file("data.tmp", "data");
  sync_path("data.tmp");
  rename("data.tmp", "data");
  sync_path(".");
  return 0;
}

void crashcut_recover(void) { assert(!exists("done") || holds("data", "data")); }
