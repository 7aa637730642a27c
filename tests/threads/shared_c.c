/* The same for C: stdatomic.h, plain pthreads. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_int flag;
static _Atomic long long wide;
struct {
  int numbers[12];
} from, to; /* others could look: the copy is made */
static int data;

static void* publishes(void* unused) {
  data = 7;
  atomic_store_explicit(&flag, 1, memory_order_release);
  return unused;
}
static void* receives(void* unused) {
  while (!atomic_load_explicit(&flag, memory_order_acquire)) {
  }
  assert(data == 7);
  return unused;
}
static void* receives_relaxed(void* unused) {
  while (!atomic_load_explicit(&flag, memory_order_relaxed)) {
  }
  assert(data == 7);
  return unused;
}
static void* adds(void* unused) {
  atomic_fetch_add(&wide, 1LL << 40);
  return unused;
}
static void* copies(void* unused) {
  to = from;
  return unused;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  void* (*first)(void*) = publishes;
  void* (*second)(void*) = receives;
  if (strcmp(what, "message-relaxed") == 0) second = receives_relaxed;
  if (strcmp(what, "adders") == 0) first = second = adds;
  if (strcmp(what, "copies") == 0) first = second = copies;
  pthread_t a, b;
  pthread_create(&a, NULL, first, NULL);
  pthread_create(&b, NULL, second, NULL);
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  if (first == adds) assert(wide == 2LL << 40);
  return 0;
}
