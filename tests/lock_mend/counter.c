// Two threads count without a lock.
// mend: one more mutex, held around counter.c:14 (count): then none of the
#include <pthread.h>
#include <stdio.h>

static int counter;
// mended: static pthread_mutex_t more = PTHREAD_MUTEX_INITIALIZER;

static void* count(void* arg) {
  (void)arg;
  for (int i = 0; i < 2; ++i) {
    puts("round");
    // mended: pthread_mutex_lock(&more);
    counter++;
    // mended: pthread_mutex_unlock(&more);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, count, NULL);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  return counter == 4 ? 0 : 1;
}
