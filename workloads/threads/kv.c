/* A key-value store that appends to a log, two threads at a time, and says "stored" when a record is durable. Syncs are
 * shared: who finds its record synced by another need not sync again.
 *
 * As it stands a record is written outside of the lock, and a sync is taken to cover all that was reserved by its end.
 * Where one thread reserves, the other syncs meanwhile, and the first writes after that, "stored" is said too early;
 * and only a crash right then shows it. With the argument "fixed" records are written under the lock, and a sync covers
 * what was written before it began.
 */
#undef NDEBUG
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "crashcut.h"

enum { kRecordBytes = 8 };

static struct {
  pthread_mutex_t lock;
  int log;
  off_t end;    /* of what is reserved */
  off_t synced; /* of what is known to be durable */
  int is_fixed;
} store = {PTHREAD_MUTEX_INITIALIZER, -1, 0, 0, 0};

/* "a=1" and a newline at the end: a record that is there is whole. */
static void make_record(char record[kRecordBytes + 1], const char* key) {
  snprintf(record, kRecordBytes + 1, "%s=1    \n", key);
}

static off_t append(const char* key) {
  char record[kRecordBytes + 1];
  off_t at;
  make_record(record, key);
  pthread_mutex_lock(&store.lock);
  at = store.end;
  store.end += kRecordBytes;
  if (!store.is_fixed) pthread_mutex_unlock(&store.lock);
  assert(pwrite(store.log, record, kRecordBytes, at) == kRecordBytes);
  if (store.is_fixed) pthread_mutex_unlock(&store.lock);
  return at + kRecordBytes;
}

static void make_durable(off_t wanted) {
  pthread_mutex_lock(&store.lock);
  if (store.synced < wanted) {
    off_t before = store.end;
    pthread_mutex_unlock(&store.lock);
    assert(fsync(store.log) == 0);
    pthread_mutex_lock(&store.lock);
    off_t covered = store.is_fixed ? before : store.end;
    if (store.synced < covered) store.synced = covered;
  }
  pthread_mutex_unlock(&store.lock);
}

static void* put(void* key) {
  make_durable(append(key));
  crashcut_mark(key);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t one, other;
  store.is_fixed = argc > 1 && strcmp(argv[1], "fixed") == 0;
  store.log = open("log", O_RDWR | O_CREAT, 0644);
  assert(store.log >= 0);
  crashcut_barrier();
  pthread_create(&one, NULL, put, "a");
  pthread_create(&other, NULL, put, "b");
  pthread_join(one, NULL);
  pthread_join(other, NULL);
  return 0;
}

static int has_record(int log, const char* key) {
  char wanted[kRecordBytes + 1], record[kRecordBytes];
  make_record(wanted, key);
  for (off_t at = 0; pread(log, record, kRecordBytes, at) == kRecordBytes; at += kRecordBytes) {
    if (memcmp(record, wanted, kRecordBytes) == 0) return 1;
  }
  return 0;
}

void crashcut_recover(void) {
  int log = open("log", O_RDONLY);
  assert(log >= 0);
  if (crashcut_reached("a")) assert(has_record(log, "a"));
  if (crashcut_reached("b")) assert(has_record(log, "b"));
}
