/* A file is created, then another's mode is changed: in order in every mode.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,644 | b,644 | b,600
 * recoveries: 3
 */
#include "litmus.h"

static void show_mode(const char* name) {
  struct stat now;
  must(stat(name, &now));
  show("%o", now.st_mode & 07777);
}

int main(void) {
  must(creat("a", 0644));
  crashcut_barrier();
  must(creat("b", 0644));
  must(chmod("a", 0600));
  return 0;
}

void crashcut_recover(void) {
  show_name("b");
  show_mode("a");
}
