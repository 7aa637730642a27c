/* fdatasync does not cover a change of mode (ext4_sync_file: i_datasync_tid; chmod is not needed to read the data).
 * The paper has one kind of sync.
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: {-,said},{644,600}
 * recoveries: 4
 * violation: yes
 * run: --profile paper --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,644 | -,600 | said,600
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("foo", "F");
  must(chmod("foo", 0644));
  crashcut_barrier();
  must(chmod("foo", 0600));
  int foo = open_to("foo", O_RDWR);
  must(fdatasync(foo));
  crashcut_mark("said");
  return 0;
}

void crashcut_recover(void) {
  struct stat now;
  int said = show_mark("said");
  must(stat("foo", &now));
  show("%o", now.st_mode & 07777);
  assert(!said || (now.st_mode & 07777) == 0600);
}
