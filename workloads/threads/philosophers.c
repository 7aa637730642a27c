/* Dining philosophers: N of them, each eats once. What keeps them from deadlock:
 *   arbiter    a mutex held while the forks are taken
 *   semaphore  a semaphore that lets in all but one
 *   left       one of them takes the left fork first
 *   none       nothing: deadlock
 * Usage: philosophers N arbiter|semaphore|left|none */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };
static pthread_mutex_t forks[MOST];
static pthread_mutex_t arbiter = PTHREAD_MUTEX_INITIALIZER;
static sem_t room;
static int count;
static const char* way;

static int is(const char* name) { return strcmp(way, name) == 0; }

static void* dine(void* number) {
  const int self = (int)(long)number;
  int first = self, second = (self + 1) % count;
  if (is("left") && self == count - 1) {
    first = second;
    second = self;
  }
  if (is("arbiter")) pthread_mutex_lock(&arbiter);
  if (is("semaphore")) sem_wait(&room);
  pthread_mutex_lock(&forks[first]);
  pthread_mutex_lock(&forks[second]);
  if (is("arbiter")) pthread_mutex_unlock(&arbiter);
  pthread_mutex_unlock(&forks[first]);
  pthread_mutex_unlock(&forks[second]);
  if (is("semaphore")) sem_post(&room);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[MOST];
  if (argc != 3 || (count = atoi(argv[1])) < 2 || count > MOST) return 2;
  way = argv[2];
  sem_init(&room, 0, (unsigned)count - 1);
  for (int i = 0; i < count; ++i) pthread_mutex_init(&forks[i], NULL);
  for (int i = 0; i < count; ++i) pthread_create(&threads[i], NULL, dine, (void*)(long)i);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  return 0;
}
