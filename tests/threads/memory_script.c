/* Threads that do what their arguments say, for tests that make up programs. Each argument is a thread: two characters
 * an access, what to do and to which of the variables. r w      a plain variable is read, written l L s S  an atomic
 * one is loaded (relaxed, acquire), stored to (relaxed, release) x        one is added to it (acquire and release) f a
 * fence ( )      a mutex is locked, unlocked ?        the next access is done only if the atomic variable, loaded with
 * acquire, is not 0
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static int plain[2];
static atomic_int atomics[2];
static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void* run(void* script) {
  volatile int sum = 0;
  for (const char* at = script; *at; at += 2) {
    const int i = at[1] - '0';
    switch (*at) {
      case 'r':
        sum += plain[i];
        break;
      case 'w':
        plain[i] = 1;
        break;
      case 'l':
        sum += atomic_load_explicit(&atomics[i], memory_order_relaxed);
        break;
      case 'L':
        sum += atomic_load_explicit(&atomics[i], memory_order_acquire);
        break;
      case 's':
        atomic_store_explicit(&atomics[i], 1, memory_order_relaxed);
        break;
      case 'S':
        atomic_store_explicit(&atomics[i], 1, memory_order_release);
        break;
      case 'x':
        atomic_fetch_add_explicit(&atomics[i], 1, memory_order_acq_rel);
        break;
      case 'f':
        atomic_thread_fence(memory_order_seq_cst);
        break;
      case '(':
        pthread_mutex_lock(&locks[i]);
        break;
      case ')':
        pthread_mutex_unlock(&locks[i]);
        break;
      case '?':
        if (atomic_load_explicit(&atomics[i], memory_order_acquire) == 0) at += 2;
        break;
      default:
        abort();
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[8];
  for (int i = 1; i < argc; ++i) pthread_create(&threads[i], NULL, run, argv[i]);
  for (int i = 1; i < argc; ++i) pthread_join(threads[i], NULL);
  return 0;
}
