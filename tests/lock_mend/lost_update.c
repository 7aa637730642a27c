// The balance is read under the lock and written under the lock, and another thread comes in between.
// mend: one more mutex, held around lost_update.c:12-20 (deposit): then none of the
#include <pthread.h>

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
// mended: static pthread_mutex_t more = PTHREAD_MUTEX_INITIALIZER;
static int balance;

static void* deposit(void* arg) {
  (void)arg;
  // mended: pthread_mutex_lock(&more);
  pthread_mutex_lock(&guard);
  const int before = balance;
  pthread_mutex_unlock(&guard);

  const int after = before + 10;

  pthread_mutex_lock(&guard);
  balance = after;
  pthread_mutex_unlock(&guard);
  // mended: pthread_mutex_unlock(&more);
  return NULL;
}

int main(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, deposit, NULL);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  return balance == 20 ? 0 : 1;
}
