/* A recovery that is itself interrupted (--depth 2): it makes the database durable before it empties the log. The
 * recoveries are the first, and after its crash one that finds the log still full and one that finds it empty.
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --sector 4 --block 4
 * outcomes: new1new2
 * recoveries: 1
 * run: --profile {paper,ext4} --data {ordered,journal,writeback} --depth 2 --sector 4 --block 4
 * outcomes: new1new2
 * recoveries: 3
 */
#include "litmus.h"

int main(void) {
  put("db", "old1old2");
  put("log", "new1new2");
  crashcut_barrier();
  return 0;
}

/* Redoes the log, if there is one, and empties it. */
void crashcut_recover(void) {
  int db = open_to("db", O_RDWR);
  if (size_of("log") == 8) {
    pwrite_text(db, "new1", 0);
    pwrite_text(db, "new2", 4);
    must(fsync(db));
    must(truncate("log", 0));
  }
  show_text("db");
  assert(holds("db", "new1new2"));
}
