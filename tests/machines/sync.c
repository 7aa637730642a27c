/* POSIX objects in shared memory, of which one machine may die. Machine 0 does something with the object, machine 1
 * needs it afterwards. The argument names the object, and what machine 1 takes for granted. */
#include <assert.h>
#include <crashcut.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct Shared {
  pthread_mutex_t plain, robust;
  pthread_rwlock_t rwlock;
  pthread_cond_t condition;
  pthread_barrier_t barrier;
  sem_t semaphore;
  unsigned futex;
  int is_set;
} * shared;

void crashcut_setup(void) {
  pthread_mutexattr_t mutex;
  pthread_rwlockattr_t rwlock;
  pthread_condattr_t condition;
  pthread_barrierattr_t barrier;
  shared = crashcut_cxl("shared", sizeof *shared);
  pthread_mutexattr_init(&mutex);
  pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&shared->plain, &mutex);
  pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&shared->robust, &mutex);
  pthread_rwlockattr_init(&rwlock);
  pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED);
  pthread_rwlock_init(&shared->rwlock, &rwlock);
  pthread_condattr_init(&condition);
  pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
  pthread_cond_init(&shared->condition, &condition);
  pthread_barrierattr_init(&barrier);
  pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &barrier, 2);
  sem_init(&shared->semaphore, 1, 1);
}

static int is(const char* what, const char* wanted) { return strcmp(what, wanted) == 0; }

static void first(const char* what) {
  if (is(what, "recoverable") || is(what, "not_recoverable") || is(what, "trylock")) {
    pthread_mutex_lock(&shared->robust);
    pthread_mutex_unlock(&shared->robust);
  } else if (is(what, "plain")) {
    pthread_mutex_lock(&shared->plain);
    pthread_mutex_unlock(&shared->plain);
  } else if (is(what, "reader")) {
    pthread_rwlock_rdlock(&shared->rwlock);
    pthread_rwlock_unlock(&shared->rwlock);
  } else if (is(what, "writer")) {
    pthread_rwlock_wrlock(&shared->rwlock);
    pthread_rwlock_unlock(&shared->rwlock);
  } else if (is(what, "condition") || is(what, "condition_owner")) {
    pthread_mutex_lock(&shared->robust);
    shared->is_set = 1;
    pthread_cond_signal(&shared->condition);
    pthread_mutex_unlock(&shared->robust);
  } else if (is(what, "semaphore")) {
    sem_wait(&shared->semaphore);
    sem_post(&shared->semaphore);
  } else if (is(what, "barrier")) {
    pthread_barrier_wait(&shared->barrier);
  } else if (is(what, "futex")) {
    __atomic_store_n(&shared->futex, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &shared->futex, FUTEX_WAKE, 1, NULL, NULL, 0);
  }
}

/* What POSIX says of a robust mutex whose owner is gone. */
static void take_robust(const char* what) {
  const int error = is(what, "trylock") ? pthread_mutex_trylock(&shared->robust) : pthread_mutex_lock(&shared->robust);
  if (is(what, "trylock") && error == EBUSY) return;
  assert(error == 0 || error == EOWNERDEAD);
  assert(crashcut_owner_died(&shared->robust) == (error == EOWNERDEAD));
  if (!is(what, "not_recoverable")) {
    if (error == EOWNERDEAD) assert(pthread_mutex_consistent(&shared->robust) == 0);
    assert(pthread_mutex_unlock(&shared->robust) == 0);
    assert(pthread_mutex_lock(&shared->robust) == 0 || crashcut_wait_machine(0) == 1);
    return;
  }
  assert(pthread_mutex_unlock(&shared->robust) == 0);
  if (error == 0) return;
  assert(pthread_mutex_lock(&shared->robust) == ENOTRECOVERABLE);
  assert(pthread_mutex_trylock(&shared->robust) == ENOTRECOVERABLE);
  assert(pthread_mutex_consistent(&shared->robust) == EINVAL);
}

/* A wait that gets the mutex of a dead owner says so. Nobody has to come: the owner may die before it signals. */
static void wait_for_condition(const char* what) {
  int error = pthread_mutex_lock(&shared->robust);
  while (!shared->is_set && error == 0) {
    error = pthread_cond_wait(&shared->condition, &shared->robust);
    assert(error == 0 || error == EOWNERDEAD);
    if (is(what, "condition_owner")) assert(error == 0);
  }
  if (error == EOWNERDEAD) pthread_mutex_consistent(&shared->robust);
  pthread_mutex_unlock(&shared->robust);
}

static void second(const char* what) {
  if (is(what, "recoverable") || is(what, "not_recoverable") || is(what, "trylock")) {
    take_robust(what);
  } else if (is(what, "plain")) {
    assert(pthread_mutex_lock(&shared->plain) == 0);
    if (crashcut_owner_died(&shared->plain)) assert(crashcut_wait_machine(0) == 1);
    pthread_mutex_unlock(&shared->plain);
  } else if (is(what, "reader") || is(what, "writer")) {
    pthread_rwlock_wrlock(&shared->rwlock);
    pthread_rwlock_unlock(&shared->rwlock);
  } else if (is(what, "condition") || is(what, "condition_owner")) {
    wait_for_condition(what);
  } else if (is(what, "semaphore")) {
    sem_wait(&shared->semaphore);
    sem_post(&shared->semaphore);
  } else if (is(what, "barrier")) {
    pthread_barrier_wait(&shared->barrier);
  } else if (is(what, "futex")) {
    while (__atomic_load_n(&shared->futex, __ATOMIC_SEQ_CST) == 0)
      syscall(SYS_futex, &shared->futex, FUTEX_WAIT, 0, NULL, NULL, 0);
  }
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "plain";
  shared = crashcut_cxl("shared", sizeof *shared);
  if (crashcut_machine() == 0)
    first(what);
  else
    second(what);
  return 0;
}
