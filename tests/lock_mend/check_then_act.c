// Each thread makes the one table if there is none: atomic steps, and no atomic whole.
// mend: one more mutex, held around check_then_act.c:14-16 (table): then none of the
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_int is_made, times;
// mended: static pthread_mutex_t more = PTHREAD_MUTEX_INITIALIZER;

// The places are one after another, so that a lock around them is one.
static void* table(void* arg) {
  (void)arg;
  // mended: pthread_mutex_lock(&more);
  if (atomic_load(&is_made) == 0) {
    atomic_fetch_add(&times, 1);
    atomic_store(&is_made, 1);
  }
  // mended: pthread_mutex_unlock(&more);
  return NULL;
}

int main(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, table, NULL);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  assert(atomic_load(&times) == 1);
  return 0;
}
