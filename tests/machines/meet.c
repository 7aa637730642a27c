// Two parties meet at one object: two machines, or two threads of one process. Built both ways: with -DTHREADS all is
// in one process. The argument names the object.
#include <crashcut.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct Shared {
  pthread_mutex_t mutex, other;
  pthread_cond_t condition;
  pthread_rwlock_t rwlock;
  pthread_barrier_t barrier;
  sem_t semaphore;
  unsigned futex;
  int is_set;
} * shared;

static void make(void) {
  pthread_mutexattr_t mutex;
  pthread_condattr_t condition;
  pthread_rwlockattr_t rwlock;
  pthread_barrierattr_t barrier;
  shared = crashcut_cxl("shared", sizeof *shared);
  pthread_mutexattr_init(&mutex);
  pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&shared->mutex, &mutex);
  pthread_mutex_init(&shared->other, &mutex);
  pthread_condattr_init(&condition);
  pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
  pthread_cond_init(&shared->condition, &condition);
  pthread_rwlockattr_init(&rwlock);
  pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED);
  pthread_rwlock_init(&shared->rwlock, &rwlock);
  pthread_barrierattr_init(&barrier);
  pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &barrier, 2);
  sem_init(&shared->semaphore, 1, 1);
}

void* party(int number, const char* what) {
  int i;
  if (strcmp(what, "mutex") == 0) {
    for (i = 0; i < 2; ++i) {
      pthread_mutex_lock(&shared->mutex);
      pthread_mutex_unlock(&shared->mutex);
    }
  } else if (strcmp(what, "trylock") == 0) {
    if (pthread_mutex_trylock(&shared->mutex) == 0) pthread_mutex_unlock(&shared->mutex);
  } else if (strcmp(what, "semaphore") == 0) {
    sem_wait(&shared->semaphore);
    sem_post(&shared->semaphore);
  } else if (strcmp(what, "condition") == 0) {
    pthread_mutex_lock(&shared->mutex);
    if (number == 0) {
      shared->is_set = 1;
      pthread_cond_signal(&shared->condition);
    } else {
      while (!shared->is_set) pthread_cond_wait(&shared->condition, &shared->mutex);
    }
    pthread_mutex_unlock(&shared->mutex);
  } else if (strcmp(what, "barrier") == 0) {
    pthread_mutex_lock(&shared->mutex);
    pthread_mutex_unlock(&shared->mutex);
    pthread_barrier_wait(&shared->barrier);
  } else if (strcmp(what, "rwlock") == 0) {
    pthread_rwlock_rdlock(&shared->rwlock);
    pthread_rwlock_unlock(&shared->rwlock);
    pthread_rwlock_wrlock(&shared->rwlock);
    pthread_rwlock_unlock(&shared->rwlock);
  } else if (strcmp(what, "futex") == 0) {
    if (number == 0) {
      __atomic_store_n(&shared->futex, 1, __ATOMIC_SEQ_CST);
      syscall(SYS_futex, &shared->futex, FUTEX_WAKE, 1, NULL, NULL, 0);
    } else {
      while (__atomic_load_n(&shared->futex, __ATOMIC_SEQ_CST) == 0)
        syscall(SYS_futex, &shared->futex, FUTEX_WAIT, 0, NULL, NULL, 0);
    }
  } else if (strcmp(what, "deadlock") == 0) {
    pthread_mutex_lock(number == 0 ? &shared->mutex : &shared->other);
    pthread_mutex_lock(number == 1 ? &shared->mutex : &shared->other);
  }
  return NULL;
}

#ifdef THREADS
static const char* what;
static void* first(void* unused) { return party(unused != NULL, what); }
static void* second(void* unused) { return party(unused == NULL, what); }
int main(int argc, char** argv) {
  pthread_t threads[2];
  make();
  what = argc > 1 ? argv[1] : "";
  pthread_create(&threads[0], NULL, first, NULL);
  pthread_create(&threads[1], NULL, second, NULL);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
  return 0;
}
#else
void crashcut_setup(void) { make(); }
int main(int argc, char** argv) {
  shared = crashcut_cxl("shared", sizeof *shared);
  party(crashcut_machine(), argc > 1 ? argv[1] : "");
  return 0;
}
#endif
