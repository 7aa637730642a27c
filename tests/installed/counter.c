/* counter [locked]: two threads count. Without the lock that is a data race. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static int g_count;

static void* count(void* is_locked) {
  if (is_locked) pthread_mutex_lock(&g_mutex);
  ++g_count;
  if (is_locked) pthread_mutex_unlock(&g_mutex);
  return NULL;
}

int main(int argc, char** argv) {
  (void)argv;
  pthread_t threads[2];
  void* is_locked = argc > 1 ? &g_mutex : NULL;
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, count, is_locked);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  assert(g_count == 2);
  return 0;
}
