/* A log without a count: a record counts if its checksum fits. Two lines a record; a crash may leave any part of the
 * last one, and recovery must refuse it.
 *
 * MISTAKE_COVERS  the checksum leaves the second line out
 * MISTAKE_FLUSH   only the first line is flushed before the promise
 * MISTAKE_FENCE   the flushes are not followed by a fence */
#include "pmem.h"

struct record {
  uint64_t checksum, sequence, key, value;
  uint64_t text[12]; /* repeats the key */
};

static struct record* the_records(void) { return (struct record*)crashcut_pmem("records", kPoolBytes); }

static uint64_t checksum_of(const struct record* record) {
#ifdef MISTAKE_COVERS
  const unsigned words = kLineBytes / 8;
#else
  const unsigned words = sizeof *record / 8;
#endif
  const uint64_t* word = (const uint64_t*)record;
  uint64_t sum = 14695981039346656037ULL;
  for (unsigned i = 1; i < words; ++i) sum = (sum ^ word[i]) * 1099511628211ULL;
  return sum;
}

static void append(struct record* record, unsigned sequence, uint64_t key) {
  record->sequence = sequence;
  record->key = key;
  record->value = value_of(key);
  for (int i = 0; i < 12; ++i) record->text[i] = key;
  record->checksum = checksum_of(record);
#if defined(MISTAKE_FLUSH)
  persist(record, kLineBytes);
#elif defined(MISTAKE_FENCE)
  flush(record, sizeof *record);
#else
  persist(record, sizeof *record);
#endif
}

int main(int argc, char** argv) {
  const unsigned count = begin(argc, argv);
  for (unsigned i = 0; i < count; ++i) {
    append(&the_records()[i], i + 1, key_of(i));
    crashcut_mark(promise(i));
  }
  return 0;
}

void crashcut_recover(void) {
  const struct record* record = the_records();
  unsigned found = 0;
  for (; found < *kept_count(); ++found, ++record) {
    if (record->sequence != found + 1 || record->checksum != checksum_of(record)) break;
    assert(record->key == key_of(found) && record->value == value_of(record->key));
    for (int i = 0; i < 12; ++i) assert(record->text[i] == record->key);
  }
  for (unsigned i = found; i < *kept_count(); ++i) assert(!crashcut_reached(promise(i)));
  printf("%u records\n", found);
}
