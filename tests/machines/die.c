// Machine 0 works under a lock and may fail; machine 1 looks after it. The argument says how.
#include <assert.h>
#include <crashcut.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

static struct Shared {
  pthread_mutex_t plain, robust;
  pthread_rwlock_t rwlock;
  int begun, done;
} * shared;

void crashcut_setup(void) {
  pthread_mutexattr_t mutex;
  shared = crashcut_cxl("shared", sizeof *shared);
  pthread_mutexattr_init(&mutex);
  pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&shared->plain, &mutex);
  pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&shared->robust, &mutex);
  pthread_rwlock_init(&shared->rwlock, NULL);
}

static int is(const char* what, const char* wanted) { return strcmp(what, wanted) == 0; }

static void* work(void* mutex) {
  pthread_mutex_lock(mutex);
  ++shared->begun;
  ++shared->done;
  pthread_mutex_unlock(mutex);
  return NULL;
}

static void worker(const char* what) {
  pthread_t thread;
  if (is(what, "rwlock")) {
    pthread_rwlock_wrlock(&shared->rwlock);
    pthread_rwlock_unlock(&shared->rwlock);
  } else if (is(what, "waits") || is(what, "nobody")) {
    return;
  } else if (is(what, "thread")) {
    pthread_create(&thread, NULL, work, &shared->plain);
    pthread_join(thread, NULL);
  } else {
    work(strncmp(what, "robust", 6) == 0 ? &shared->robust : &shared->plain);
  }
}

static void observer(const char* what) {
  int failed;
  if (is(what, "nobody")) return;
  if (is(what, "plain") || is(what, "plain_trusts") || is(what, "plain_halves")) {
    assert(pthread_mutex_lock(&shared->plain) == 0);
    if (is(what, "plain_halves")) assert(shared->begun == shared->done);
    if (is(what, "plain_trusts")) assert(!crashcut_owner_died(&shared->plain));
    pthread_mutex_unlock(&shared->plain);
    assert(!crashcut_owner_died(&shared->plain));
  } else if (is(what, "robust")) {
    failed = pthread_mutex_lock(&shared->robust);
    assert(failed == 0 || failed == EOWNERDEAD);
    assert((failed == EOWNERDEAD) == crashcut_owner_died(&shared->robust));
    if (failed != 0) assert(pthread_mutex_consistent(&shared->robust) == 0);
    assert(!crashcut_owner_died(&shared->robust));
    assert(pthread_mutex_unlock(&shared->robust) == 0);
  } else if (is(what, "robust_forgets")) {
    pthread_mutex_lock(&shared->robust);
    pthread_mutex_unlock(&shared->robust);
    assert(pthread_mutex_lock(&shared->robust) == 0);
    pthread_mutex_unlock(&shared->robust);
  } else if (is(what, "rwlock")) {
    pthread_rwlock_rdlock(&shared->rwlock);
    pthread_rwlock_unlock(&shared->rwlock);
  } else {
    failed = crashcut_wait_machine(0);
    assert(failed == 0 || failed == 1);
    if (is(what, "waits_trusts")) assert(failed == 0);
    if (failed == 0 && is(what, "thread")) assert(shared->done == 1);
    if (is(what, "restart")) {
      if (failed == 0) assert(shared->done == 1);
      assert(crashcut_restart_machine(0) == 0);
      if (crashcut_wait_machine(0) == 0) assert(shared->done >= 1 && shared->begun >= shared->done);
    }
  }
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "waits";
  shared = crashcut_cxl("shared", sizeof *shared);
  if (crashcut_machine() == 0)
    worker(what);
  else
    observer(what);
  return 0;
}
