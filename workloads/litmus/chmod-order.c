/* Changes of mode ride in the journal, in order. The paper says nothing of them; there they are metadata of their
 * own file, in order with directory operations before them and with nothing else.
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 4 --block 4
 * run: --profile paper --data journal --sector 4 --block 4
 * outcomes: 644,644 | 600,644 | 600,600
 * recoveries: 3
 * run: --profile paper --data {ordered,writeback} --sector 4 --block 4
 * outcomes: {644,600},{644,600}
 * recoveries: 4
 */
#include "litmus.h"

static void show_mode(const char* name) {
  struct stat now;
  must(stat(name, &now));
  show("%o", now.st_mode & 07777);
}

int main(void) {
  must(creat("a", 0644));
  must(creat("b", 0644));
  crashcut_barrier();
  must(chmod("a", 0600));
  must(chmod("b", 0600));
  return 0;
}

void crashcut_recover(void) {
  show_mode("a");
  show_mode("b");
}
