// A thread looks whether there is something to take, and takes it under another lock.
// mend: one more mutex, held around stack.c:14-20 (take): then none of the
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
// mended: static pthread_mutex_t more = PTHREAD_MUTEX_INITIALIZER;
static int items = 1;

static void* take(void* arg) {
  (void)arg;
  // mended: pthread_mutex_lock(&more);
  int left;
  pthread_mutex_lock(&guard);
  left = items;
  pthread_mutex_unlock(&guard);
  if (left > 0) {
    pthread_mutex_lock(&guard);
    assert(--items >= 0);
    pthread_mutex_unlock(&guard);
  }
  // mended: pthread_mutex_unlock(&more);
  return NULL;
}

int main(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, take, NULL);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  return 0;
}
