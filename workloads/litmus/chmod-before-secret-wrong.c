/* Without it the overwrite waits for no metadata: a secret that everybody may read. One journal keeps the order.
 * run: --profile {paper,ext4} --data {ordered,writeback} --sector 4 --block 4
 * outcomes: {644,600},{none,pswd}
 * recoveries: 4
 * violation: yes
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: 644,none | 600,none | 600,pswd
 * recoveries: 3
 */
#include "litmus.h"

static void show_mode(const char* name) {
  struct stat now;
  must(stat(name, &now));
  show("%o", now.st_mode & 07777);
}

int main(void) {
  put("key", "none");
  crashcut_barrier();
  int key = open_to("key", O_WRONLY);
  must(fchmod(key, 0600));
  pwrite_text(key, "pswd", 0);
  return 0;
}

void crashcut_recover(void) {
  struct stat now;
  show_mode("key");
  show_text("key");
  must(stat("key", &now));
  assert(!holds("key", "pswd") || (now.st_mode & 07777) == 0600);
}
