/* A write-ahead log: the record is durable before the database is touched, and goes when the database is durable.
 * Recovery redoes a record that its seal proves. The recoveries are the log's lengths 0, 4, 8 and 0 again, and at
 * 12 one, or one for each mix of blocks that are not there yet (8). With --depth 2 the redo is interrupted too, and
 * done again: one more.
 * run: --profile paper --data ordered --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: old1old2 | new1new2
 * recoveries: 5
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --sector 4 --block 4
 * outcomes: old1old2 | new1new2
 * recoveries: 12
 * run: --profile paper --data ordered --depth 2 --sector 4 --block 4
 * run: --profile {paper,ext4} --data journal --depth 2 --sector 4 --block 4
 * outcomes: old1old2 | new1new2
 * recoveries: 6
 * run: --profile paper --data writeback --depth 2 --sector 4 --block 4
 * run: --profile ext4 --data {ordered,writeback} --depth 2 --sector 4 --block 4
 * outcomes: old1old2 | new1new2
 * recoveries: 13
 */
#include "litmus.h"

#define RECORD_BYTES 12

/* Two blocks of data and one that proves them. */
static void seal(char record[RECORD_BYTES]) {
  for (int i = 0; i < 4; ++i) record[8 + i] = 'A' + (record[i] + 3 * record[4 + i]) % 26;
}

int main(void) {
  char record[RECORD_BYTES] = "new1new2";
  put("db", "old1old2");
  must(creat("log", 0644));
  crashcut_barrier();
  int log = open_to("log", O_WRONLY), db = open_to("db", O_WRONLY);
  seal(record);
  must(write(log, record, RECORD_BYTES));
  must(fsync(log));
  pwrite_text(db, "new1", 0);
  pwrite_text(db, "new2", 4);
  must(fsync(db));
  must(ftruncate(log, 0));
  return 0;
}

static int read_record(char record[RECORD_BYTES]) {
  if (size_of("log") != RECORD_BYTES) return 0;
  char sealed[RECORD_BYTES];
  must(pread(open_to("log", O_RDONLY), record, RECORD_BYTES, 0));
  memcpy(sealed, record, RECORD_BYTES);
  seal(sealed);
  return memcmp(sealed, record, RECORD_BYTES) == 0;
}

void crashcut_recover(void) {
  char record[RECORD_BYTES];
  if (read_record(record)) must(pwrite(open_to("db", O_WRONLY), record, 8, 0));
  show_text("db");
  assert(holds("db", "old1old2") || holds("db", "new1new2"));
}
