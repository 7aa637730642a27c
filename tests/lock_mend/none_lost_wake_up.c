// The signal may come before the wait: no lock changes that.
#include <pthread.h>

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;

static void* wake(void* arg) {
  (void)arg;
  pthread_mutex_lock(&guard);
  pthread_cond_signal(&ready);
  pthread_mutex_unlock(&guard);
  return NULL;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, wake, NULL);
  pthread_mutex_lock(&guard);
  pthread_cond_wait(&ready, &guard);
  pthread_mutex_unlock(&guard);
  return pthread_join(thread, NULL);
}
