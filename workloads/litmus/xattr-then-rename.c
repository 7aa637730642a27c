/* A label is put on the new file before it replaces the old one: in ext4's journal it comes first. The paper's
 * rules, which do not know attributes, let the rename pass.
 * run: --profile ext4 --data {ordered,journal,writeback} --sector 4 --block 4
 * run: --profile paper --data journal --sector 4 --block 4
 * outcomes: old!,- | new!,x
 * recoveries: 2
 * run: --profile paper --data {ordered,writeback} --sector 4 --block 4
 * outcomes: old!,- | new!,{-,x}
 * recoveries: 3
 * violation: yes
 */
#include "litmus.h"

static void show_attribute(const char* name, const char* key) {
  char value[16] = "-";
  ssize_t length = getxattr(name, key, value, sizeof value - 1);
  if (length >= 0) value[length] = '\0';
  show("%s", value);
}

int main(void) {
  put("foo", "old!");
  crashcut_barrier();
  put_synced("tmp", "new!");
  must(setxattr("tmp", "user.label", "x", 1, 0));
  must(rename("tmp", "foo"));
  return 0;
}

void crashcut_recover(void) {
  char value;
  show_text("foo");
  show_attribute("foo", "user.label");
  assert(holds("foo", "old!") || getxattr("foo", "user.label", &value, 1) == 1);
}
