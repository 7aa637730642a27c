/* C11 threads: a bounded counter behind a mutex and a condition variable. */
#include <assert.h>
#include <threads.h>

static mtx_t lock;
static cnd_t changed;
static once_flag once = ONCE_FLAG_INIT;
static tss_t slot;
static int value, started;

static void begin(void) { ++started; }

static int work(void* unused) {
  (void)unused;
  call_once(&once, begin);
  tss_set(slot, &value);
  mtx_lock(&lock);
  ++value;
  cnd_signal(&changed);
  mtx_unlock(&lock);
  assert(tss_get(slot) == &value);
  return 7;
}

int main(void) {
  thrd_t a, b;
  int result = 0;
  mtx_init(&lock, mtx_plain);
  cnd_init(&changed);
  tss_create(&slot, NULL);
  thrd_create(&a, work, NULL);
  thrd_create(&b, work, NULL);
  mtx_lock(&lock);
  while (value < 2) cnd_wait(&changed, &lock);
  mtx_unlock(&lock);
  thrd_join(a, &result);
  thrd_join(b, NULL);
  assert(result == 7 && started == 1);
  mtx_destroy(&lock);
  cnd_destroy(&changed);
  return 0;
}
