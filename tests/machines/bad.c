/* What goes wrong before, beside and after machines. */
#define _GNU_SOURCE
#include <assert.h>
#include <crashcut.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef SETUP_HANGS
void crashcut_setup(void) {
  while (1) {
  }
}
#endif
#ifdef ENDS_EARLY
__attribute__((constructor)) static void end_early(void) { _exit(3); }
#endif
#ifdef NEVER_STARTS
__attribute__((constructor)) static void never_start(void) {
  while (1) {
  }
}
#endif
#ifdef SETUP_FAILS
void crashcut_setup(void) { assert(crashcut_machines() == 77); }
#endif
#ifdef SETUP_TOUCHES
void crashcut_setup(void) { swab("ab", crashcut_cxl("numbers", 4096), 2); }
#endif

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  int* shared = crashcut_cxl("numbers", 4096);
  if (strcmp(what, "exit") == 0 && crashcut_machine() == 1) return 3;
  if (strcmp(what, "larger") == 0 && crashcut_machine() == 1) crashcut_cxl("numbers", 1 << 20);
  if (strcmp(what, "fork") == 0 && crashcut_machine() == 1) return fork() != 0;
  if (strcmp(what, "segv") == 0 && crashcut_machine() == 1) raise(SIGSEGV);
  if (strcmp(what, "outside") == 0 && crashcut_machine() == 1) shared[4096 / sizeof *shared] = 1;
  if (strcmp(what, "hang") == 0 && crashcut_machine() == 1) {
    while (1) {
    }
  }
  if (strcmp(what, "touch") == 0 && crashcut_machine() == 1) swab("ab", shared + 2, 2);
  if (strcmp(what, "race") == 0) ++*shared;
  if (strcmp(what, "atomic") == 0) {
    if (__atomic_fetch_add(shared, 1, __ATOMIC_SEQ_CST) == 1) assert(shared[1] == 0);
  }
  if (strcmp(what, "wait") == 0) crashcut_wait_machine(1 - crashcut_machine());
  if (strcmp(what, "own") == 0) {
    /* Private memory of machines is theirs: the same address, other contents. */
    int* own = calloc(1, sizeof *own);
    static int global;
    *own = global = crashcut_machine();
    sleep(1);
    assert(*own == crashcut_machine() && global == crashcut_machine());
  }
  return 0;
}
