/* Objects that are destroyed, by name: used afterwards, or as they may be. */
#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t b;
static sem_t s;
static int is_waiting, may_go;

static void* locks(void* unused) {
  pthread_mutex_lock(&m);
  pthread_mutex_unlock(&m);
  return unused;
}
static void* waits(void* unused) {
  sem_wait(&s);
  return unused;
}
static void* waits_to_go(void* unused) {
  pthread_mutex_lock(&m);
  is_waiting = 1;
  while (!may_go) pthread_cond_wait(&c, &m);
  pthread_mutex_unlock(&m);
  return unused;
}
static void* meets(void* unused) {
  if (pthread_barrier_wait(&b) == PTHREAD_BARRIER_SERIAL_THREAD) pthread_barrier_destroy(&b);
  return unused;
}
static void* posts(void* unused) {
  sem_post(&s);
  return unused;
}

int main(int argc, char** argv) {
  pthread_t t;
  assert(argc == 2);
#define IS(name) (strcmp(argv[1], name) == 0)
  sem_init(&s, 0, 0);
  pthread_barrier_init(&b, NULL, 2);
  if (IS("mutex") || IS("anew") || IS("init")) {
    pthread_mutex_destroy(&m);
    if (IS("anew")) m = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    if (IS("init")) pthread_mutex_init(&m, NULL);
    pthread_create(&t, NULL, locks, NULL);
    pthread_join(t, NULL);
  }
  if (IS("semaphore") || IS("taken")) {
    pthread_create(&t, NULL, IS("taken") ? posts : waits, NULL);
    if (IS("taken")) sem_wait(&s);
    sem_destroy(&s);
    pthread_join(t, NULL);
  }
  if (IS("condition")) {
    pthread_cond_destroy(&c);
    pthread_cond_signal(&c);
  }
  if (IS("rwlock")) {
    pthread_rwlock_destroy(&rw);
    pthread_rwlock_rdlock(&rw);
  }
  if (IS("barrier")) {
    pthread_barrier_destroy(&b);
    pthread_barrier_wait(&b);
  }
  if (IS("twice")) {
    pthread_mutex_destroy(&m);
    pthread_mutex_destroy(&m);
  }
  if (IS("woken")) {
    pthread_create(&t, NULL, waits_to_go, NULL);
    pthread_mutex_lock(&m);
    may_go = 1;
    if (is_waiting) {
      pthread_cond_broadcast(&c);
      pthread_cond_destroy(&c);
    }
    pthread_mutex_unlock(&m);
    pthread_join(t, NULL);
  }
  if (IS("leaving")) {
    pthread_create(&t, NULL, meets, NULL);
    meets(NULL);
    pthread_join(t, NULL);
  }
  return 0;
}
