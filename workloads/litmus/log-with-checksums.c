/* A record of three bytes, the last of which proves the other two, is appended across a block's end. What recovery
 * accepts is one record or two, whatever the sizes and zeros in between: those are what the numbers of recoveries
 * count.
 * run: --profile paper --data ordered --sector 1 --block 4
 * outcomes: aa | aabb
 * recoveries: 4
 * run: --profile paper --data writeback --sector 1 --block 4
 * outcomes: aa | aabb
 * recoveries: 9
 * run: --profile {paper,ext4} --data journal --sector 1 --block 4
 * outcomes: aa | aabb
 * recoveries: 3
 * run: --profile ext4 --data {ordered,writeback} --sector 1 --block 4
 * outcomes: aa | aabb
 * recoveries: 7
 */
#include "litmus.h"

int main(void) {
  put("log", "aaA");
  crashcut_barrier();
  write_text(open_to("log", O_WRONLY | O_APPEND), "bbB");
  return 0;
}

void crashcut_recover(void) {
  char text[TEXT_MOST + 1], accepted[TEXT_MOST + 1] = "";
  read_text("log", text);
  for (const char* at = text; strlen(at) >= 3 && isalpha(at[0]) && at[0] == at[1] && at[2] == toupper(at[0]); at += 3) {
    strncat(accepted, at, 2);
  }
  show("%s", accepted);
  assert(strcmp(accepted, "aa") == 0 || strcmp(accepted, "aabb") == 0);
}
