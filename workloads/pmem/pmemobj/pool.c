/* A pool is made, and a crash may come while it is made. The pool gets its name when it is whole: pmemobj_create()
 * takes many steps, and a crash among them leaves a file that pmemobj_open() refuses.
 *
 * MISTAKE_NAME  the pool is made under its name: recovery takes a file for a pool */
#include "pool.h"

#include <fcntl.h>

int main(void) {
  mkdir("pmem", 0755);
#ifdef MISTAKE_NAME
  pool = pmemobj_create(POOL_FILE, "crashcut", PMEMOBJ_MIN_POOL, 0600);
  check(pool != NULL, "pmemobj_create");
#else
  pool = pmemobj_create("pmem/unfinished", "crashcut", PMEMOBJ_MIN_POOL, 0600);
  check(pool != NULL, "pmemobj_create");
  pmemobj_close(pool);
  check(rename("pmem/unfinished", POOL_FILE) == 0, "rename");
  const int directory = open("pmem", O_RDONLY | O_DIRECTORY);
  check(fsync(directory) == 0, "fsync");
  close(directory);
#endif
  crashcut_mark("made");
  return 0;
}

void crashcut_recover(void) {
  if (access(POOL_FILE, F_OK) != 0) {
    assert(!crashcut_reached("made"));
    printf("no pool\n");
    return;
  }
  open_pool(64);
  printf("a pool\n");
}
