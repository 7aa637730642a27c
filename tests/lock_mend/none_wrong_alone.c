// The sum is wrong in any order.
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static int sum;

static void* add(void* arg) {
  (void)arg;
  pthread_mutex_lock(&guard);
  sum += 2;
  pthread_mutex_unlock(&guard);
  return NULL;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, add, NULL);
  pthread_mutex_lock(&guard);
  sum += 2;
  pthread_mutex_unlock(&guard);
  pthread_join(thread, NULL);
  assert(sum == 5);
  return 0;
}
