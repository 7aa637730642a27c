/* log [flushed]: a log in persistent memory. An entry has to be durable before the count says that it is there. */
#include <assert.h>
#include <immintrin.h>

#include "crashcut.h"

struct log {
  long count;
  char rest_of_line[56];
  long entries[8];
};

static struct log* the_log(void) { return crashcut_pmem("log", sizeof(struct log)); }

int main(int argc, char** argv) {
  (void)argv;
  struct log* log = the_log();
  log->entries[0] = 42;
  if (argc > 1) {
    _mm_clflush(&log->entries[0]);
    _mm_sfence();
  }
  log->count = 1;
  return 0;
}

void crashcut_recover(void) { assert(the_log()->count == 0 || the_log()->entries[0] == 42); }
