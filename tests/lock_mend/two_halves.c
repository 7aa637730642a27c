// A transfer in two halves, each under its own mutex, and an audit that may come in between.
// mend: one more mutex, held around two_halves.c:38 (main) and two_halves.c:13-18 (transfer): then none of the
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t left_guard = PTHREAD_MUTEX_INITIALIZER, right_guard = PTHREAD_MUTEX_INITIALIZER;
// mended: static pthread_mutex_t more = PTHREAD_MUTEX_INITIALIZER;
static int left = 100, right;

static void* transfer(void* arg) {
  (void)arg;
  // mended: pthread_mutex_lock(&more);
  pthread_mutex_lock(&left_guard);
  left -= 30;
  pthread_mutex_unlock(&left_guard);
  pthread_mutex_lock(&right_guard);
  right += 30;
  pthread_mutex_unlock(&right_guard);
  // mended: pthread_mutex_unlock(&more);
  return NULL;
}

static void audit(void) {
  // mended: pthread_mutex_lock(&more);
  pthread_mutex_lock(&left_guard);
  int sum = left;
  pthread_mutex_unlock(&left_guard);
  pthread_mutex_lock(&right_guard);
  sum += right;
  pthread_mutex_unlock(&right_guard);
  // mended: pthread_mutex_unlock(&more);
  assert(sum == 100);
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, transfer, NULL);
  audit();
  pthread_join(thread, NULL);
  return 0;
}
