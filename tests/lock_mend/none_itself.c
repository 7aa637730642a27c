// A function locks what its caller holds.
#include <pthread.h>

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static void inner(void) {
  pthread_mutex_lock(&guard);
  pthread_mutex_unlock(&guard);
}
int main(void) {
  pthread_mutex_lock(&guard);
  inner();
  pthread_mutex_unlock(&guard);
  return 0;
}
