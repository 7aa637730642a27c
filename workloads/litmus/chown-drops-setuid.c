/* chown takes the setuid bit away in the same step, even where the owner stays.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: 4755 | 755
 * recoveries: 2
 */
#include "litmus.h"

static void show_mode(const char* name) {
  struct stat now;
  must(stat(name, &now));
  show("%o", now.st_mode & 07777);
}

int main(void) {
  must(creat("tool", 0644));
  must(chmod("tool", 04755));
  crashcut_barrier();
  must(chown("tool", geteuid(), getegid()));
  return 0;
}

void crashcut_recover(void) { show_mode("tool"); }
