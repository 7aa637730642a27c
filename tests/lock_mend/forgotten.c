// The reader forgets the writers' mutex.
// mend: hold mutex guard around forgotten.c:26 (main): then none of the
#include <pthread.h>

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static int total;

static void* add(void* arg) {
  (void)arg;
  pthread_mutex_lock(&guard);
  total += 5;
  pthread_mutex_unlock(&guard);
  return NULL;
}

static int read_total(void) {
  // mended: pthread_mutex_lock(&guard);
  int seen = total;
  // mended: pthread_mutex_unlock(&guard);
  return seen;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, add, NULL);
  const int seen = read_total();
  pthread_join(thread, NULL);
  return seen == 0 || seen == 5 ? 0 : 1;
}
