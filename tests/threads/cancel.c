/* Cancelled threads, by name: for tests of crashcut threads. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER, all_wait = PTHREAD_COND_INITIALIZER;
static int waiting, cleaned, got_on;
static sem_t s;
static pthread_t a, b;

static void clean(void* unused) {
  (void)unused;
  ++cleaned;
  pthread_mutex_unlock(&m);
}
static void* waits(void* cleans) {
  pthread_mutex_lock(&m);
  if (cleans != NULL) {
    pthread_cleanup_push(clean, NULL);
    pthread_cond_wait(&ready, &m);
    pthread_cleanup_pop(0);
  } else {
    pthread_cond_wait(&ready, &m);
  }
  pthread_mutex_unlock(&m);
  return NULL;
}
static void* is_one_of_two(void* unused) {
  pthread_mutex_lock(&m);
  pthread_cleanup_push(clean, NULL);
  if (++waiting == 2) pthread_cond_signal(&all_wait);
  pthread_cond_wait(&ready, &m);
  pthread_cleanup_pop(1);
  return unused;
}
static void* takes(void* unused) {
  sem_wait(&s);
  return unused;
}
static void* is_busy(void* unused) {
  int old;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
  assert(old == PTHREAD_CANCEL_ENABLE);
  sem_wait(&s);
  pthread_testcancel();
  got_on = 1;
  pthread_setcancelstate(old, NULL);
  pthread_testcancel();
  got_on = 2;
  return unused;
}
static void* joins(void* unused) {
  pthread_join(a, NULL);
  return unused;
}
static void* writes(void* unused) {
  const int fd = open("log", O_CREAT | O_WRONLY, 0644);
  for (int i = 0; i < 2; ++i) {
    if (write(fd, "line", 4) != 4) _exit(9);
  }
  return unused;
}
static void* sleeps_for_ever(void* unused) {
  for (;;) sleep(1);
  return unused;
}
static void* tests_for_ever(void* unused) {
  for (;;) pthread_testcancel();
  return unused;
}
static void* tests_often(void* unused) {
  for (int i = 0; i < 2000; ++i) pthread_testcancel();
  return unused;
}
static void* is_asynchronous(void* unused) {
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  return unused;
}

#define IS(text) (strcmp(argv[1], text) == 0)
#define BEGIN(thread, routine, argument) assert(pthread_create(&thread, NULL, routine, argument) == 0)

static int is_cancelled(pthread_t thread) {
  void* result = NULL;
  assert(pthread_join(thread, &result) == 0);
  assert(result == NULL || result == PTHREAD_CANCELED);
  return result == PTHREAD_CANCELED;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (IS("wait") || IS("wait-leaks")) {
    BEGIN(a, waits, IS("wait") ? &m : NULL);
    assert(pthread_cancel(a) == 0);
    assert(is_cancelled(a));
    pthread_mutex_lock(&m);
    assert(cleaned == 1);
  }
  if (IS("sleeps") || IS("tests")) {
    BEGIN(a, IS("sleeps") ? sleeps_for_ever : tests_for_ever, NULL);
    pthread_cancel(a);
    assert(is_cancelled(a));
  }
  if (IS("computes")) {
    BEGIN(a, tests_often, NULL);
    assert(!is_cancelled(a));
  }
  if (IS("semaphore")) {
    sem_init(&s, 0, 0);
    BEGIN(a, takes, NULL);
    sem_post(&s);
    pthread_cancel(a);
    int count;
    const int cancelled = is_cancelled(a);
    sem_getvalue(&s, &count);
    assert(count == cancelled);
  }
  /* Who is cancelled takes no signal from the other. */
  if (IS("signal")) {
    BEGIN(a, is_one_of_two, NULL);
    BEGIN(b, is_one_of_two, NULL);
    pthread_mutex_lock(&m);
    while (waiting != 2) pthread_cond_wait(&all_wait, &m);
    pthread_cond_signal(&ready);
    pthread_cancel(a);
    pthread_mutex_unlock(&m);
    if (!is_cancelled(a)) pthread_cond_signal(&ready);
    assert(!is_cancelled(b));
    assert(cleaned == 2);
  }
  /* Few enough steps for every schedule: the signal is taken, or comes too early, or the thread is cancelled. */
  if (IS("signal-one") || IS("signal-one-kept")) {
    BEGIN(a, waits, &m);
    pthread_mutex_lock(&m);
    pthread_cond_signal(&ready);
    pthread_mutex_unlock(&m);
    pthread_cancel(a);
    const int cancelled = is_cancelled(a);
    assert(cleaned == cancelled);
    if (IS("signal-one-kept")) assert(!cancelled);
  }
  if (IS("disabled")) {
    sem_init(&s, 0, 0);
    BEGIN(a, is_busy, NULL);
    pthread_cancel(a);
    sem_post(&s);
    assert(is_cancelled(a));
    assert(got_on == 1);
  }
  if (IS("join")) {
    sem_init(&s, 0, 0);
    BEGIN(a, takes, NULL);
    BEGIN(b, joins, NULL);
    pthread_cancel(b);
    assert(is_cancelled(b));
    sem_post(&s);
    assert(!is_cancelled(a));
  }
  if (IS("late")) {
    sem_init(&s, 0, 1);
    BEGIN(a, takes, NULL);
    pthread_cancel(a);
    int count;
    const int cancelled = is_cancelled(a);
    sem_getvalue(&s, &count);
    assert(count == cancelled);
  }
  if (IS("write") || IS("write-all")) {
    BEGIN(a, writes, NULL);
    pthread_cancel(a);
    const int cancelled = is_cancelled(a);
    struct stat st = {0};
    if (stat("log", &st) != 0) assert(cancelled);
    if (!cancelled || IS("write-all")) assert(st.st_size == 8);
    assert(st.st_size % 4 == 0);
  }
  if (IS("asynchronous")) {
    BEGIN(a, is_asynchronous, NULL);
    pthread_cancel(a);
    is_cancelled(a);
  }
  return 0;
}
