/* A write-ahead log with ordinary writes. right: the record is durable before the database changes, and the database
 * before the record goes. log-not-synced: the first of the two is missing; db-not-synced: the second is. */
#include "wal.h"

int main(int argc, char** argv) {
  if (is_recovery(argc, argv)) return 0;
  const int syncs_log = strcmp(argv[1], "log-not-synced") != 0, syncs_db = strcmp(argv[1], "db-not-synced") != 0;
  if (syncs_log && syncs_db && strcmp(argv[1], "right") != 0) refuse_form(argv[1]);
  LogBlock block;
  make_start();
  fill(&block, 'n');
  const int log = (int)must(open("log", O_RDWR)), db = (int)must(open("db", O_WRONLY));
  write_all(log, &block, sizeof block);
  if (syncs_log) must(fdatasync(log));
  crashcut_mark("committed");
  write_all(db, block.record.pages, sizeof block.record.pages);
  if (syncs_db) must(fdatasync(db));
  memset(&block, 0, sizeof block);
  must(pwrite(log, &block, sizeof block, 0));
  must(fdatasync(log));
  return 0;
}
