// Three philosophers, each with the left fork first.
// mend: one more mutex, held around philosophers.c:14-15 (dine): then none of the
#include <pthread.h>

enum { kCount = 3 };
static pthread_mutex_t forks[kCount];
// mended: static pthread_mutex_t more = PTHREAD_MUTEX_INITIALIZER;

static void* dine(void* arg) {
  const long i = (long)arg;
  pthread_mutex_t* left = &forks[i];
  pthread_mutex_t* right = &forks[(i + 1) % kCount];
  // mended: pthread_mutex_lock(&more);
  pthread_mutex_lock(left);
  pthread_mutex_lock(right);
  // mended: pthread_mutex_unlock(&more);
  pthread_mutex_unlock(right);
  pthread_mutex_unlock(left);
  return NULL;
}

int main(void) {
  pthread_t threads[kCount];
  for (int i = 0; i < kCount; ++i) pthread_mutex_init(&forks[i], NULL);
  for (long i = 0; i < kCount; ++i) pthread_create(&threads[i], NULL, dine, (void*)i);
  for (int i = 0; i < kCount; ++i) pthread_join(threads[i], NULL);
  return 0;
}
