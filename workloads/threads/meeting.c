/* Threads that meet: at a barrier, or at a condition variable that is broadcast.
 *   barrier    nothing to choose: one execution
 *   broadcast  all wait until the last one has come
 *   lost       the same without looking whether it has come already: deadlock
 * Usage: meeting THREADS barrier|broadcast|lost */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };
static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_here = PTHREAD_COND_INITIALIZER;
static int count, here;
static const char* way;

static void* meet(void* unused) {
  if (strcmp(way, "barrier") == 0) {
    pthread_barrier_wait(&barrier);
    return unused;
  }
  pthread_mutex_lock(&lock);
  if (++here == count) pthread_cond_broadcast(&all_here);
  if (strcmp(way, "lost") == 0) {
    pthread_cond_wait(&all_here, &lock);
  } else {
    while (here < count) pthread_cond_wait(&all_here, &lock);
  }
  pthread_mutex_unlock(&lock);
  return unused;
}

int main(int argc, char** argv) {
  pthread_t threads[MOST];
  if (argc != 3 || (count = atoi(argv[1])) < 1 || count > MOST) return 2;
  way = argv[2];
  pthread_barrier_init(&barrier, NULL, (unsigned)count);
  for (int i = 0; i < count; ++i) pthread_create(&threads[i], NULL, meet, NULL);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  return 0;
}
