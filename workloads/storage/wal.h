/* A write-ahead log of one record: two pages of a database, and the checksum that proves them.
 * Recovery is the same for every way to write it. */
#ifndef CRASHCUT_WAL_H
#define CRASHCUT_WAL_H

#include "storage.h"

enum { kPageBytes = 512, kPages = 2, kAlign = 4096 };

/* Padded to whole blocks, for O_DIRECT. */
typedef union {
  struct {
    char pages[kPages][kPageBytes];
    uint64_t checksum;
  } record;
  char padding[kAlign];
} LogBlock;

static CRASHCUT_UNUSED void fill(LogBlock* block, char letter) {
  memset(block, 0, sizeof *block);
  memset(block->record.pages, letter, sizeof block->record.pages);
  block->record.checksum = checksum_of(block->record.pages, sizeof block->record.pages);
}

/* The database holds 'o' everywhere, the log is an allocated block of zeros. */
static CRASHCUT_UNUSED void make_start(void) {
  LogBlock block;
  fill(&block, 'o');
  const int db = (int)must(open("db", O_WRONLY | O_CREAT, 0644));
  write_all(db, &block, sizeof block);
  must(close(db));
  memset(&block, 0, sizeof block);
  const int log = (int)must(open("log", O_WRONLY | O_CREAT, 0644));
  write_all(log, &block, sizeof block);
  must(close(log));
  crashcut_barrier();
}

static int is_all(const LogBlock* block, char letter) {
  const char* const bytes = (const char*)block;
  for (size_t i = 0; i < sizeof block->record.pages; ++i) {
    if (bytes[i] != letter) return 0;
  }
  return 1;
}

void crashcut_recover(void) {
  LogBlock log, db;
  if (read_file("log", &log, sizeof log) == sizeof log &&
      log.record.checksum == checksum_of(log.record.pages, sizeof log.record.pages)) {
    const int fd = (int)must(open("db", O_WRONLY));
    write_all(fd, log.record.pages, sizeof log.record.pages);
    must(fsync(fd));
    must(close(fd));
  }
  assert(read_file("db", &db, sizeof db) == sizeof db);
  assert(is_all(&db, 'o') || is_all(&db, 'n'));
  assert(is_all(&db, 'n') || !crashcut_reached("committed"));
}

#endif
