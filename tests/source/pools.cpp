// Threads that work on what lies on the stack of main(): two locks in the wrong order.
#include <pthread.h>

struct Slot {
  long count;
  pthread_mutex_t lock;
};
struct Pool {
  long size;
  Slot slots[2];
};

static void* work(void* argument) {
  Pool* pool = static_cast<Pool*>(argument);
  pthread_mutex_lock(&pool->slots[1].lock);
  pthread_mutex_lock(&pool->slots[0].lock);
  pool->slots[0].count++;
  pthread_mutex_unlock(&pool->slots[0].lock);
  pthread_mutex_unlock(&pool->slots[1].lock);
  return nullptr;
}

__attribute__((noinline)) static void take(Pool& shared) {
  pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&own);
  pthread_mutex_lock(&shared.slots[0].lock);
  pthread_mutex_lock(&shared.slots[1].lock);
  shared.slots[0].count++;
  pthread_mutex_unlock(&shared.slots[1].lock);
  pthread_mutex_unlock(&shared.slots[0].lock);
  pthread_mutex_unlock(&own);
}

int main() {
  Pool pool{};
  pthread_mutex_init(&pool.slots[0].lock, nullptr);
  pthread_mutex_init(&pool.slots[1].lock, nullptr);
  pthread_t thread;
  pthread_create(&thread, nullptr, work, &pool);
  take(pool);
  pthread_join(thread, nullptr);
  return 0;
}
