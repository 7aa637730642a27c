/* Attributes of one file are set one after the other, changed and removed: every state that was, and no other.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: -,- | 1,- | 1,2 | 3,2 | 3,-
 * recoveries: 5
 */
#include "litmus.h"

static void show_attribute(const char* name, const char* key) {
  char value[16] = "-";
  ssize_t length = getxattr(name, key, value, sizeof value - 1);
  if (length >= 0) value[length] = '\0';
  show("%s", value);
}

int main(void) {
  must(creat("foo", 0644));
  crashcut_barrier();
  must(setxattr("foo", "user.a", "1", 1, XATTR_CREATE));
  must(setxattr("foo", "user.b", "2", 1, 0));
  must(setxattr("foo", "user.a", "3", 1, XATTR_REPLACE));
  must(removexattr("foo", "user.b"));
  return 0;
}

void crashcut_recover(void) {
  show_attribute("foo", "user.a");
  show_attribute("foo", "user.b");
}
