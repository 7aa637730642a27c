/* Producers and consumers of a bounded buffer.
 *   semaphore  two semaphores and a mutex
 *   while      a condition variable, waited for in a loop
 *   if         a condition variable, waited for once: only a wake-up without a signal breaks it (--spurious 1)
 * Usage: producer_consumer ITEMS PRODUCERS CONSUMERS semaphore|while|if [ROOM]
 * Each producer makes ITEMS. The buffer has room for all items, or, with semaphores, for ROOM. */
#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static sem_t empty, full;
static int items, producers, consumers, stored;
static const char* way;

static void* produce(void* unused) {
  for (int i = 0; i < items; ++i) {
    const int by_semaphore = strcmp(way, "semaphore") == 0;
    if (by_semaphore) sem_wait(&empty);
    pthread_mutex_lock(&lock);
    ++stored;
    if (!by_semaphore) pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
    if (by_semaphore) sem_post(&full);
  }
  return unused;
}

static void* consume(void* unused) {
  for (int i = 0; i < items * producers / consumers; ++i) {
    const int by_semaphore = strcmp(way, "semaphore") == 0;
    if (by_semaphore) sem_wait(&full);
    pthread_mutex_lock(&lock);
    if (strcmp(way, "while") == 0) {
      while (stored == 0) pthread_cond_wait(&filled, &lock);
    } else if (!by_semaphore && stored == 0) {
      pthread_cond_wait(&filled, &lock);
    }
    assert(stored > 0);
    --stored;
    pthread_mutex_unlock(&lock);
    if (by_semaphore) sem_post(&empty);
  }
  return unused;
}

int main(int argc, char** argv) {
  pthread_t threads[2 * MOST];
  if (argc != 5 && argc != 6) return 2;
  items = atoi(argv[1]);
  producers = atoi(argv[2]);
  consumers = atoi(argv[3]);
  way = argv[4];
  if (producers < 1 || producers > MOST || consumers < 1 || consumers > MOST || items * producers % consumers != 0)
    return 2;
  sem_init(&empty, 0, argc == 6 ? (unsigned)atoi(argv[5]) : (unsigned)(items * producers));
  sem_init(&full, 0, 0);
  int count = 0;
  for (int i = 0; i < producers; ++i) pthread_create(&threads[count++], NULL, produce, NULL);
  for (int i = 0; i < consumers; ++i) pthread_create(&threads[count++], NULL, consume, NULL);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  return 0;
}
