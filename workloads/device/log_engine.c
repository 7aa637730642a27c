// A storage engine on a raw device: a log and checkpoints, written through libaio with eight requests in flight.
//
// run     puts 24 values under 8 keys, in batches of 8 records of the log; a checkpoint after the first batch.
// verify  recovers what a crash left, and compares it with what was acknowledged.
//
// The device: sectors 0-1 and 2-3 are the two superblocks, used in turn; 8-9 and 16-17 the two checkpoints; from sector
//   32 on lies the log, a record a sector. The superblock names the checkpoint and the epoch of the log behind it: a
//   checkpoint begins a new epoch, and the log starts at its beginning again.
// How it is right:
//   a batch       8 records are written at once; when all are done a flush follows; then the batch is acknowledged. A
//                 record has the epoch and a checksum, and recovery stops at the first one that is not whole.
//   a checkpoint  is written, flushed, and only then named by the superblock that is the older one, which is flushed
//   too.
//                 The newest superblock whose checksum is right counts.
// How it can be wrong:
//   no-flush          no flush between a checkpoint and the superblock that names it
//   no-checksum       one superblock, overwritten in place, two sectors long and without a checksum
//   completion-order  a commit record is written when the records are done, and recovery trusts it for all of them:
//                     what is done first need not persist first
//   flush-in-flight   the flush is sent with the records, and does not wait for them to be done
//   no-ack-flush      a batch is acknowledged when it is done: no flush
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crashcut.h"

enum { kSector = 512, kKeys = 8, kBatch = 8, kBatches = 3, kCheckpointAfter = 1 };
enum { kSuperblocks = 0, kCheckpoints = 8, kLog = 32 };

static struct { bool no_flush, no_checksum, completion_order, flush_in_flight, no_ack_flush; } wrong;

struct superblock {  // two sectors
  uint64_t sequence;
  uint32_t epoch;
  char rest[kSector - 12];
  uint32_t checkpoint;  // in the second sector: 0 or 1
  uint32_t checksum;
  char rest_2[kSector - 8];
};

struct checkpoint {    // two sectors
  uint32_t put_count;  // in it
  uint32_t first_values[kKeys / 2];
  char rest[kSector - 4 - 4 * kKeys / 2];
  uint32_t last_values[kKeys / 2];
  uint32_t checksum;
  char rest_2[kSector - 4 - 4 * kKeys / 2];
};

struct record {  // a sector
  uint32_t epoch, index, key, value, is_commit, checksum;
  char rest[kSector - 24];
};

struct table {
  uint32_t put_count;
  uint32_t values[kKeys];
};

static int device;
static io_context_t context;

static void fail(const char* what, int error) {
  fprintf(stderr, "%s: %s\n", what, strerror(error));
  exit(2);
}

// FNV-1a of all bytes but the checksum's own.
static uint32_t sum_of(const void* bytes, size_t size, size_t checksum_at) {
  uint32_t sum = 2166136261u;
  for (size_t i = 0; i < size; ++i) {
    if (i < checksum_at || i >= checksum_at + 4) sum = (sum ^ ((const unsigned char*)bytes)[i]) * 16777619u;
  }
  return sum;
}
#define SUM_OF(object) sum_of(object, sizeof *(object), (size_t)((char*)&(object)->checksum - (char*)(object)))

static void* aligned(size_t size) {
  void* memory = NULL;
  if (posix_memalign(&memory, 4096, size) != 0) fail("memory", ENOMEM);
  memset(memory, 0, size);
  return memory;
}

// ---- requests -------------------------------------------------------------------------------------------------------

static struct iocb requests[kBatch + 1];
static int request_count;

static void submit_write(const void* bytes, size_t size, uint64_t sector) {
  struct iocb* request = &requests[request_count++];
  io_prep_pwrite(request, device, (void*)bytes, size, (long long)(sector * kSector));
  const int taken = io_submit(context, 1, &request);
  if (taken != 1) fail("io_submit", -taken);
}

static void submit_flush(void) {
  struct iocb* request = &requests[request_count++];
  io_prep_fdsync(request, device);
  const int taken = io_submit(context, 1, &request);
  if (taken != 1) fail("io_submit", -taken);
}

static void wait_for_all(void) {
  for (; request_count > 0; --request_count) {
    struct io_event done;
    const int count = io_getevents(context, 1, 1, &done, NULL);
    if (count != 1) fail("io_getevents", -count);
    if ((long)done.res < 0) fail("request", -(int)(long)done.res);
  }
}

static void flush(void) {
  if (fdatasync(device) != 0) fail("fdatasync", errno);
}

// ---- the program ----------------------------------------------------------------------------------------------------

static uint32_t key_of(uint32_t put) { return put * 5 % kKeys; }
static uint32_t value_of(uint32_t put) { return 1000 + put; }

static void put(struct table* table, uint32_t number) {
  table->values[key_of(number)] = value_of(number);
  table->put_count = number + 1;
}

static void write_checkpoint(const struct table* table, uint32_t slot) {
  struct checkpoint* checkpoint = aligned(sizeof *checkpoint);
  checkpoint->put_count = table->put_count;
  memcpy(checkpoint->first_values, table->values, sizeof checkpoint->first_values);
  memcpy(checkpoint->last_values, table->values + kKeys / 2, sizeof checkpoint->last_values);
  checkpoint->checksum = SUM_OF(checkpoint);
  submit_write(checkpoint, sizeof *checkpoint, kCheckpoints + 8 * slot);
  wait_for_all();
  if (!wrong.no_flush) flush();
  free(checkpoint);
}

static void write_superblock(uint64_t sequence, uint32_t epoch, uint32_t checkpoint) {
  struct superblock* superblock = aligned(sizeof *superblock);
  superblock->sequence = sequence;
  superblock->epoch = epoch;
  superblock->checkpoint = checkpoint;
  superblock->checksum = SUM_OF(superblock);
  submit_write(superblock, sizeof *superblock, kSuperblocks + (wrong.no_checksum ? 0 : 2 * (sequence % 2)));
  wait_for_all();
  flush();
  free(superblock);
}

static void write_batch(struct table* table, uint32_t epoch, uint32_t first_index) {
  struct record* records = aligned((kBatch + 1) * sizeof *records);
  for (uint32_t i = 0; i < kBatch; ++i) {
    const uint32_t number = table->put_count;
    put(table, number);
    records[i] =
        (struct record){.epoch = epoch, .index = first_index + i, .key = key_of(number), .value = value_of(number)};
    records[i].checksum = SUM_OF(&records[i]);
    submit_write(&records[i], sizeof records[i], kLog + first_index + i);
  }
  if (wrong.flush_in_flight) submit_flush();
  wait_for_all();
  if (wrong.completion_order) {
    records[kBatch] = (struct record){.epoch = epoch, .index = first_index + kBatch, .is_commit = 1};
    records[kBatch].checksum = SUM_OF(&records[kBatch]);
    submit_write(&records[kBatch], sizeof records[kBatch], kLog + first_index + kBatch);
    wait_for_all();
  }
  if (!wrong.flush_in_flight && !wrong.no_ack_flush) flush();
  free(records);
}

static void format(void) {
  struct table empty = {0};
  write_checkpoint(&empty, 0);
  if (wrong.no_flush) flush();
  write_superblock(2, 1, 0);
  crashcut_barrier();
}

static void run(void) {
  const int created = io_setup(kBatch + 1, &context);
  if (created != 0) fail("io_setup", -created);
  format();
  struct table table = {0};
  uint32_t epoch = 1, next_index = 0;
  for (uint32_t batch = 1; batch <= kBatches; ++batch) {
    write_batch(&table, epoch, next_index);
    next_index += kBatch + (wrong.completion_order ? 1 : 0);
    char text[32];
    snprintf(text, sizeof text, "committed %u", batch);
    crashcut_mark(text);
    if (batch != kCheckpointAfter) continue;
    write_checkpoint(&table, 1);
    write_superblock(3, ++epoch, 1);
    next_index = 0;
  }
}

// ---- recovery -------------------------------------------------------------------------------------------------------

static void damaged(const char* what) {
  printf("damaged: %s\n", what);
  exit(1);
}

static void read_at(void* to, size_t size, uint64_t sector) {
  if (pread(device, to, size, (off_t)(sector * kSector)) != (ssize_t)size) fail("read", errno);
}

static void read_superblock(struct superblock* newest) {
  struct superblock* found = aligned(sizeof *found);
  bool is_found = false;
  for (uint64_t slot = 0; slot < (wrong.no_checksum ? 1 : 2); ++slot) {
    read_at(found, sizeof *found, kSuperblocks + 2 * slot);
    const bool is_whole = wrong.no_checksum || (found->sequence != 0 && found->checksum == SUM_OF(found));
    if (!is_whole || (is_found && found->sequence < newest->sequence)) continue;
    *newest = *found;
    is_found = true;
  }
  free(found);
  if (!is_found) damaged("there is no superblock");
}

static void read_checkpoint(struct table* table, uint32_t slot) {
  if (slot > 1) damaged("the superblock names no checkpoint");
  struct checkpoint* checkpoint = aligned(sizeof *checkpoint);
  read_at(checkpoint, sizeof *checkpoint, kCheckpoints + 8 * slot);
  if (checkpoint->checksum != SUM_OF(checkpoint)) damaged("the checkpoint is not whole");
  table->put_count = checkpoint->put_count;
  memcpy(table->values, checkpoint->first_values, sizeof checkpoint->first_values);
  memcpy(table->values + kKeys / 2, checkpoint->last_values, sizeof checkpoint->last_values);
  free(checkpoint);
}

static bool read_record(struct record* record, uint32_t epoch, uint32_t index) {
  read_at(record, sizeof *record, kLog + index);
  return record->epoch == epoch && record->index == index && record->checksum == SUM_OF(record);
}

static void apply(struct table* table, const struct record* record) {
  if (record->key < kKeys) table->values[record->key] = record->value;
  ++table->put_count;
}

static void replay_log(struct table* table, uint32_t epoch) {
  struct record* record = aligned(sizeof *record);
  for (uint32_t index = 0; !wrong.completion_order && read_record(record, epoch, index); ++index) apply(table, record);
  // The records before a commit record are taken as they are.
  for (uint32_t first = 0; wrong.completion_order && read_record(record, epoch, first + kBatch) && record->is_commit;
       first += kBatch + 1) {
    for (uint32_t i = 0; i < kBatch; ++i) {
      read_record(record, epoch, first + i);
      apply(table, record);
    }
  }
  free(record);
}

static void verify(void) {
  struct superblock* superblock = aligned(sizeof *superblock);
  read_superblock(superblock);
  struct table found = {0}, expected = {0};
  read_checkpoint(&found, superblock->checkpoint);
  replay_log(&found, superblock->epoch);
  free(superblock);
  if (found.put_count > kBatch * kBatches) damaged("there is more than was put");
  for (uint32_t number = 0; number < found.put_count; ++number) put(&expected, number);
  if (memcmp(&found, &expected, sizeof found) != 0) damaged("the values are not those of any moment");
  char text[32];
  snprintf(text, sizeof text, "committed %u", found.put_count / kBatch + 1);
  if (crashcut_reached(text)) {
    printf("lost: %u puts are there, and it said \"%s\"\n", found.put_count, text);
    exit(1);
  }
  printf("%u puts\n", found.put_count);
}

int main(int argc, char** argv) {
  if (argc != 4 || (strcmp(argv[1], "run") != 0 && strcmp(argv[1], "verify") != 0)) {
    fprintf(stderr, "usage: log_engine run|verify VARIANT DEVICE\n");
    return 2;
  }
  const struct {
    const char* name;
    bool* is_wrong;
  } variants[] = {{"right", NULL},
                  {"no-flush", &wrong.no_flush},
                  {"no-checksum", &wrong.no_checksum},
                  {"completion-order", &wrong.completion_order},
                  {"flush-in-flight", &wrong.flush_in_flight},
                  {"no-ack-flush", &wrong.no_ack_flush}};
  bool is_known = false;
  for (size_t i = 0; i < sizeof variants / sizeof variants[0]; ++i) {
    if (strcmp(argv[2], variants[i].name) != 0) continue;
    is_known = true;
    if (variants[i].is_wrong) *variants[i].is_wrong = true;
  }
  if (!is_known) {
    fprintf(stderr, "log_engine: there is no variant %s\n", argv[2]);
    return 2;
  }
  const bool runs = strcmp(argv[1], "run") == 0;
  device = open(argv[3], (runs ? O_RDWR : O_RDONLY) | O_DIRECT);
  if (device < 0) fail(argv[3], errno);
  if (runs) {
    run();
  } else {
    verify();
  }
  return 0;
}
