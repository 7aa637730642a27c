/* A log: records one after the other, and a header that says how many bytes are used. A record is durable before the
 * header counts it.
 *
 * MISTAKE_RECORD    the record is not flushed
 * MISTAKE_ORDER     the header counts the record before the record is flushed
 * MISTAKE_COUNTERS  records are counted too, in another line, and recovery trusts that both counters fit
 * MISTAKE_STRADDLE  the header lies across two lines, so that a crash tears it */
#include "pmem.h"

struct record {
  uint64_t key, value;
  uint64_t text[6]; /* repeats the key */
};
struct log {
  char header[2 * kLineBytes];
  volatile uint64_t records_counted;
  char pad[kLineBytes - 8];
  struct record records[];
};

static struct log* the_log(void) { return (struct log*)crashcut_pmem("log", kPoolBytes); }

/* How many bytes are used, times a number that fills both halves of the word: a word of two crashes is no multiple. */
static const uint64_t kUnit = sizeof(struct record) * 0x100000001ULL;
static volatile uint64_t* used(struct log* log) {
#ifdef MISTAKE_STRADDLE
  return (volatile uint64_t*)(log->header + kLineBytes - 4);
#else
  return (volatile uint64_t*)log->header;
#endif
}

static void append(struct log* log, uint64_t key) {
  const uint64_t count = *used(log) / kUnit;
  struct record* record = &log->records[count];
#ifdef MISTAKE_ORDER
  *used(log) = (count + 1) * kUnit;
#endif
  record->key = key;
  record->value = value_of(key);
  for (int i = 0; i < 6; ++i) record->text[i] = key;
#ifndef MISTAKE_RECORD
  persist(record, sizeof *record);
#endif
#ifdef MISTAKE_COUNTERS
  log->records_counted = count + 1;
  flush(&log->records_counted, 8);
#endif
  *used(log) = (count + 1) * kUnit;
  persist(used(log), 8);
}

int main(int argc, char** argv) {
  const unsigned count = begin(argc, argv);
  for (unsigned i = 0; i < count; ++i) {
    append(the_log(), key_of(i));
    crashcut_mark(promise(i));
  }
  return 0;
}

void crashcut_recover(void) {
  struct log* log = the_log();
  const uint64_t bytes = *used(log), count = bytes / kUnit;
  assert(bytes % kUnit == 0);
  assert(count <= *kept_count());
#ifdef MISTAKE_COUNTERS
  assert(log->records_counted == count);
#endif
  for (unsigned i = 0; i < count; ++i) {
    const struct record* record = &log->records[i];
    assert(record->key == key_of(i) && record->value == value_of(record->key));
    for (int k = 0; k < 6; ++k) assert(record->text[k] == record->key);
  }
  for (unsigned i = (unsigned)count; i < *kept_count(); ++i) assert(!crashcut_reached(promise(i)));
  printf("%lu records\n", (unsigned long)count);
}
