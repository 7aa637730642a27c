/* A listing after the crash: three names were made in order, one was taken away; what is listed is a state that
 * was.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: "" | a | a,b | a,b,c | a,c
 * recoveries: 5
 */
#include "litmus.h"

int main(void) {
  must(mkdir("d", 0755));
  crashcut_barrier();
  must(creat("d/a", 0644));
  must(creat("d/b", 0644));
  must(creat("d/c", 0644));
  must(unlink("d/b"));
  return 0;
}

void crashcut_recover(void) {
  char seen[3] = {0};
  int count = 0;
  DIR* d = opendir("d");
  assert(d);
  for (struct dirent* entry; (entry = readdir(d));) {
    if (*entry->d_name != '.') seen[*entry->d_name - 'a'] = 1, ++count;
  }
  closedir(d);
  if (count == 0) show("\"\"");
  for (int i = 0; i < 3; ++i) {
    if (seen[i]) show("%c", 'a' + i);
  }
}
