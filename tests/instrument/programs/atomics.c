/* Atomics of every width, and two threads that count. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

static _Atomic uint8_t a1;
static _Atomic uint16_t a2;
static _Atomic uint32_t a4;
static _Atomic uint64_t a8;
static unsigned __int128 a16 __attribute__((aligned(16)));
struct triple {
  long a[3];
};
static _Atomic struct triple generic;
static _Atomic double real;
static _Atomic(int*) pointer;

static void show(unsigned long x) { printf("%lu ", x); }
#define EVERY(x)                                                                                                     \
  atomic_store(&x, 5), show(atomic_fetch_add(&x, 250)), show(atomic_fetch_sub(&x, 3)), show(atomic_fetch_or(&x, 9)), \
      show(atomic_fetch_and(&x, 60)), show(atomic_fetch_xor(&x, 255)), show(atomic_exchange(&x, 1)), puts("")

static long plain;
static _Atomic int lock;
static void* count(void* unused) {
  for (int i = 0; i < 20000; ++i) {
    a8++;
    while (atomic_exchange_explicit(&lock, 1, memory_order_acquire)) {
    }
    ++plain;
    atomic_store_explicit(&lock, 0, memory_order_release);
  }
  return unused;
}

int main(void) {
  EVERY(a1);
  EVERY(a2);
  EVERY(a4);
  EVERY(a8);
  uint32_t expected = 7;
  printf("%d %u", atomic_compare_exchange_strong(&a4, &expected, 3), expected);
  printf(" %d %u\n", atomic_compare_exchange_strong(&a4, &expected, 3), (unsigned)a4);
  printf("%d %d\n", __atomic_fetch_max((int*)&a4, 77, __ATOMIC_SEQ_CST),
         __atomic_fetch_min((int*)&a4, -4, __ATOMIC_SEQ_CST));
  unsigned __int128 old = __sync_val_compare_and_swap(&a16, 0, ((unsigned __int128)7 << 64) + 9);
  old += __sync_fetch_and_add(&a16, ((unsigned __int128)1 << 64) + 1);
  printf("%lu %lu %lu\n", (unsigned long)old, (unsigned long)a16, (unsigned long)(a16 >> 64));
  struct triple t = {{1, 2, 3}};
  generic = t;
  t.a[1] = 9;
  struct triple u = atomic_exchange(&generic, t);
  struct triple v = generic;
  printf("%ld %ld\n", u.a[1], v.a[1]);
  real = 1.5;
  real = real + 2.25;
  int x = 1;
  pointer = &x;
  atomic_store(&pointer, pointer + 1);
  printf("%g %d\n", (double)real, pointer == &x + 1);
  a8 = 0;
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, count, NULL);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  printf("%lu %ld\n", (unsigned long)a8, plain);
  return 0;
}
