/* The same log with libaio and O_DIRECT. right: the record's write has completed and the drive's cache was flushed
 * before the database's is submitted. together: both are submitted at once. no-flush: O_DIRECT is taken for durable;
 * the drive's cache may still hold the record. */
#define _GNU_SOURCE
#include <libaio.h>

#include "wal.h"

/* Submits writes of one block each, and waits for all. */
static void write_blocks(io_context_t context, const int* fds, LogBlock* const* blocks, int count) {
  struct iocb requests[2], *pointers[2];
  struct io_event events[2];
  for (int i = 0; i < count; ++i) {
    io_prep_pwrite(&requests[i], fds[i], blocks[i], sizeof *blocks[i], 0);
    pointers[i] = &requests[i];
  }
  if (io_submit(context, count, pointers) != count || io_getevents(context, count, count, events, NULL) != count)
    exit(3);
  for (int i = 0; i < count; ++i) {
    if ((long)events[i].res != (long)sizeof *blocks[i]) exit(3);
  }
}

static LogBlock* new_block(void) {
  LogBlock* block = aligned_alloc(kAlign, sizeof(LogBlock));
  if (block == NULL) exit(3);
  return block;
}

int main(int argc, char** argv) {
  if (is_recovery(argc, argv)) return 0;
  const int is_together = strcmp(argv[1], "together") == 0, flushes = strcmp(argv[1], "no-flush") != 0;
  if (!is_together && flushes && strcmp(argv[1], "right") != 0) refuse_form(argv[1]);
  io_context_t context = NULL;
  if (io_setup(8, &context) != 0) exit(3);
  make_start();
  LogBlock* const block = new_block();
  fill(block, 'n');
  const int fds[2] = {(int)must(open("log", O_RDWR | O_DIRECT)), (int)must(open("db", O_RDWR | O_DIRECT))};
  LogBlock* const both[2] = {block, block};
  write_blocks(context, fds, both, is_together ? 2 : 1);
  if (flushes) must(fdatasync(fds[0]));
  crashcut_mark("committed");
  if (!is_together) write_blocks(context, fds + 1, both, 1);
  must(fdatasync(fds[1]));
  memset(block, 0, sizeof *block);
  write_blocks(context, fds, both, 1);
  must(fdatasync(fds[0]));
  io_destroy(context);
  return 0;
}
