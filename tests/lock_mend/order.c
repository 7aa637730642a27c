// Two threads lock two mutexes in opposite orders.
// mend: lock mutex a before mutex b at order.c:22 (backward): then none of the
#include <pthread.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static int x, y;

static void* forward(void* arg) {
  (void)arg;
  pthread_mutex_lock(&a);
  x++;
  pthread_mutex_lock(&b);
  y++;
  pthread_mutex_unlock(&b);
  pthread_mutex_unlock(&a);
  return NULL;
}

static void* backward(void* arg) {
  (void)arg;
  // mended: pthread_mutex_lock(&a);
  pthread_mutex_lock(&b);
  y--;
  // mended: if (0)
  pthread_mutex_lock(&a);
  x--;
  pthread_mutex_unlock(&a);
  pthread_mutex_unlock(&b);
  return NULL;
}

int main(void) {
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, forward, NULL);
  pthread_create(&threads[1], NULL, backward, NULL);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  return 0;
}
