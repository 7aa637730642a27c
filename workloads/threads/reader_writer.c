/* Readers and writers, each once.
 *   rwlock  pthread_rwlock_t; with --policy rwlock=readers or writers, a preference
 *   cond    the same built on a mutex and a condition variable; cond-readers, cond-writers: with a preference
 *   mutex   a mutex for all
 * Usage: reader_writer READERS WRITERS rwlock|cond|cond-readers|cond-writers|mutex */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int reading, writing, readers_waiting, writers_waiting;
static int value, copy;
static const char* way;

/* Whether those who are preferred wait too. */
static int must_let_pass(int writes) {
  if (strcmp(way, "cond-readers") == 0) return writes && readers_waiting;
  return strcmp(way, "cond-writers") == 0 && !writes && writers_waiting;
}

static void enter(int writes) {
  if (strcmp(way, "rwlock") == 0) {
    if (writes)
      pthread_rwlock_wrlock(&rwlock);
    else
      pthread_rwlock_rdlock(&rwlock);
    return;
  }
  pthread_mutex_lock(&lock);
  if (strcmp(way, "mutex") == 0) return;
  int* const waiting = writes ? &writers_waiting : &readers_waiting;
  ++*waiting;
  while (writing || (writes && reading) || must_let_pass(writes)) pthread_cond_wait(&changed, &lock);
  --*waiting;
  if (writes)
    writing = 1;
  else
    ++reading;
  pthread_mutex_unlock(&lock);
}

static void leave(int writes) {
  if (strcmp(way, "rwlock") == 0) {
    pthread_rwlock_unlock(&rwlock);
    return;
  }
  if (strcmp(way, "mutex") != 0) {
    pthread_mutex_lock(&lock);
    if (writes)
      writing = 0;
    else
      --reading;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
}

static void* read_once(void* unused) {
  enter(0);
  assert(value == copy);
  leave(0);
  return unused;
}

static void* write_once(void* unused) {
  enter(1);
  ++value;
  ++copy;
  leave(1);
  return unused;
}

int main(int argc, char** argv) {
  pthread_t threads[2 * MOST];
  if (argc != 4) return 2;
  const int readers = atoi(argv[1]), writers = atoi(argv[2]);
  way = argv[3];
  if (readers < 0 || readers > MOST || writers < 0 || writers > MOST) return 2;
  for (int i = 0; i < readers + writers; ++i)
    pthread_create(&threads[i], NULL, i < readers ? read_once : write_once, NULL);
  for (int i = 0; i < readers + writers; ++i) pthread_join(threads[i], NULL);
  assert(value == writers);
  return 0;
}
