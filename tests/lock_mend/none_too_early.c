// The thread may run before the pointer is set: a lock does not make it wait.
#include <pthread.h>
#include <stdatomic.h>

static _Atomic(int*) place;
static int value = 3;

static void* use(void* arg) {
  (void)arg;
  *atomic_load(&place) = 4;
  return NULL;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, use, NULL);
  atomic_store(&place, &value);
  return pthread_join(thread, NULL);
}
