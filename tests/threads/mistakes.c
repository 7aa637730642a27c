/* One mistake, or none, by its name: for tests of crashcut threads. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crashcut.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static int turn;
static volatile int flag;
static pthread_key_t key;
static int destroyed;
static pthread_t a, b;

static sem_t count, other_count;
static sem_t* timed_out;

static int gave_up;

static void* polls(void* unused) {
  while (pthread_mutex_trylock(&m) != 0) {
  }
  pthread_mutex_unlock(&m);
  while (sem_trywait(&count) != 0) sched_yield();
  return unused;
}
static void* gives_up(void* unused) {
  int tries = 0;
  while (tries < 20 && pthread_mutex_trylock(&m) != 0) ++tries;
  if (tries < 20) pthread_mutex_unlock(&m);
  gave_up = tries == 20;
  sem_post(&count);
  return unused;
}
static void* holds_until_posted(void* unused) {
  pthread_mutex_lock(&m);
  sem_wait(&count);
  pthread_mutex_unlock(&m);
  return unused;
}

static char* block;
static void* frees_block(void* unused) {
  pthread_mutex_lock(&m);
  char* seen = block;
  pthread_mutex_unlock(&m);
  free(seen);
  return unused;
}
static void* takes_block(void* unused) {
  pthread_mutex_lock(&m);
  char* seen = block;
  block = NULL;
  pthread_mutex_unlock(&m);
  free(seen);
  return unused;
}

static struct timespec last;
static void* sleeps_then_looks_at_clock(void* ms) {
  usleep((useconds_t)(long)ms * 1000);
  pthread_mutex_lock(&m);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  assert(now.tv_sec > last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec >= last.tv_nsec));
  last = now;
  pthread_mutex_unlock(&m);
  return NULL;
}
static char unseen_lock;
static void* takes_unseen_lock(void* unused) {
  while (__atomic_test_and_set(&unseen_lock, __ATOMIC_ACQUIRE)) {
  }
  pthread_mutex_lock(&m);
  pthread_mutex_unlock(&m);
  __atomic_clear(&unseen_lock, __ATOMIC_RELEASE);
  return unused;
}

static FILE* stream;
static void* writes_line(void* unused) {
  fprintf(stream, "line\n");
  fflush(stream);
  return unused;
}
static void* sets_flag(void* unused) {
  flag = 1;
  return unused;
}
static void* polls_till_late(void* unused) {
  for (const time_t end = time(NULL) + 10; time(NULL) < end;) usleep(1000);
  return unused;
}

static sigjmp_buf out;
static volatile sig_atomic_t got;

static void leaves(int signal) {
  got = signal;
  siglongjmp(out, 1);
}
static void notes(int signal) { got = signal; }
static void exits_at_once(int unused) { _exit(5); }
static void ends(int number) {
  signal(number, SIG_DFL);
  raise(number);
}
static void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  sigfillset(&action.sa_mask);
  sigaction(signal, &action, NULL);
}
static void* faults(void* nowhere) {
  pthread_mutex_lock(&m);
  if (sigsetjmp(out, 1) == 0) *(volatile int*)nowhere = 1;
  ++turn;
  pthread_mutex_unlock(&m);
  return NULL;
}

static void* looks_at_stack(void* unused) {
  pthread_attr_t attributes;
  char here, *begin;
  size_t bytes;
  assert(pthread_getattr_np(pthread_self(), &attributes) == 0);
  assert(pthread_attr_getstack(&attributes, (void**)&begin, &bytes) == 0 && pthread_attr_destroy(&attributes) == 0);
  assert(&here > begin && &here < begin + bytes && bytes >= 128 << 10);
  /* All of it is there. */
  if (&here - begin > 64 << 10) begin += 16 << 10, *(volatile char*)begin = 1;
  return unused;
}

static void* waits_or_posts(void* own) {
  const struct timespec now = {0, 0};
  if (sem_timedwait(own, &now) != 0) timed_out = own;
  sem_post(own == &count ? &other_count : &count);
  return NULL;
}
static void* posts(void* unused) {
  sem_post(&count);
  sem_post(&count);
  return unused;
}
static void* tries(void* unused) {
  sem_trywait(&count);
  return unused;
}
static void* hangs_unless_posted(void* unused) {
  if (sem_trywait(&count) != 0) {
    while (!flag) {
    }
  }
  return unused;
}
static void* by_signal(void* unused) {
  pthread_mutex_lock(&m);
  if (turn++ != 0) *(volatile int*)unused = 1;
  pthread_mutex_unlock(&m);
  return NULL;
}
static void* by_abort(void* unused) {
  pthread_mutex_lock(&m);
  if (turn++ != 0) abort();
  pthread_mutex_unlock(&m);
  return unused;
}
static void* by_assert(void* unused) {
  pthread_mutex_lock(&m);
  assert(turn == 0);
  turn = 1;
  pthread_mutex_unlock(&m);
  return unused;
}
static void* waits(void* unused) {
  pthread_mutex_lock(&m);
  pthread_cond_wait(&ready, &m);
  pthread_mutex_unlock(&m);
  return unused;
}
static void* spins(void* unused) {
  while (!flag) sched_yield();
  return unused;
}
static void* nothing(void* unused) { return unused; }
static void* locks(void* unused) {
  pthread_mutex_lock(&m);
  return unused;
}
static void* unlocks(void* unused) {
  pthread_mutex_unlock(&m);
  return unused;
}
static void* recurses(void* p) {
  volatile char room[4096];
  room[0] = (char)(long)p;
  return (char*)recurses((void*)room) + room[0];
}
static void* exits(void* unused) {
  pthread_mutex_lock(&m);
  if (turn++ != 0) exit(3);
  pthread_mutex_unlock(&m);
  pthread_exit((void*)5);
  return unused;
}
static void* holds_for_a_while(void* unused) {
  pthread_mutex_lock(&m);
  pthread_mutex_unlock(&m);
  return unused;
}
static void on_key(void* value) { destroyed += (int)(long)value; }
static void* has_key(void* value) {
  pthread_setspecific(key, value);
  assert(pthread_getspecific(key) == value);
  return NULL;
}

static void on_cleanup(void* by) { turn += (int)(long)by; }
static void leaves_early(void) { pthread_exit((void*)9); }
static void* cleans_up(void* unused) {
  pthread_cleanup_push(on_cleanup, (void*)1L);
  pthread_cleanup_push(on_cleanup, (void*)10L);
  leaves_early();
  pthread_cleanup_pop(0);
  pthread_cleanup_pop(0);
  return unused;
}

static void* assumes(void* unused) {
  (void)unused;
  crashcut_assume(turn != 0);
  return NULL;
}

static void two(void* (*routine)(void*)) {
  pthread_create(&a, NULL, routine, NULL);
  pthread_create(&b, NULL, routine, NULL);
  pthread_join(a, NULL);
  pthread_join(b, NULL);
}
static void one(void* (*routine)(void*)) { pthread_create(&a, NULL, routine, NULL); }

static void init_mutex(int type, int robust) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, type);
  if (robust) pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&m, &attributes);
}

// No execution is like the one before it: they share this, made before main().
static unsigned* executions;
__attribute__((constructor)) static void share(void) {
  executions = mmap(NULL, sizeof *executions, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void* makes_temporary_files(void* unused) {
  char file[] = "f-XXXXXX", directory[] = "d-XXXXXX", suffixed[] = "XXXXXX.txt", bad[] = "XXXXX";
  int one = mkstemp(file), other = mkstemps(suffixed, 4);
  assert(one >= 0 && other >= 0 && one != other && mkdtemp(directory) == directory);
  assert(access(file, R_OK | W_OK) == 0 && access(directory, X_OK) == 0 && strcmp(suffixed + 6, ".txt") == 0);
  assert(mkostemp(bad, O_APPEND) == -1 && errno == EINVAL);
  return unused;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
#define IS(name) (strcmp(what, name) == 0)
  if (IS("signal")) two(by_signal);
  if (IS("abort")) two(by_abort);
  if (IS("assert")) two(by_assert);
  if (IS("lost-wakeup")) {
    one(waits);
    pthread_mutex_lock(&m);
    pthread_cond_signal(&ready);
    pthread_mutex_unlock(&m);
    pthread_join(a, NULL);
  }
  if (IS("self-lock")) {
    pthread_mutex_lock(&m);
    pthread_mutex_lock(&m);
  }
  if (IS("spin") || IS("livelock")) {
    one(spins);
    pthread_mutex_lock(&m);
    flag = IS("spin");
    pthread_mutex_unlock(&m);
    pthread_join(a, NULL);
  }
  if (IS("left")) one(nothing);
  if (IS("detached")) {
    one(nothing);
    pthread_detach(a);
  }
  if (IS("non-owner")) {
    pthread_mutex_lock(&m);
    one(unlocks);
    pthread_join(a, NULL);
  }
  if (IS("not-locked")) pthread_mutex_unlock(&m);
  if (IS("destroy")) {
    pthread_mutex_lock(&m);
    pthread_mutex_destroy(&m);
  }
  if (IS("join-twice") || IS("join-detached")) {
    one(nothing);
    if (IS("join-twice")) pthread_join(a, NULL);
    if (IS("join-detached")) pthread_detach(a);
    pthread_join(a, NULL);
  }
  if (IS("overflow")) {
    one(recurses);
    pthread_join(a, NULL);
  }
  if (IS("exit")) two(exits);
  if (IS("cleanup")) {
    void* result = NULL;
    one(cleans_up);
    pthread_join(a, &result);
    assert(turn == 11 && result == (void*)9);
  }
  if (IS("timedjoin")) {
    const struct timespec soon = {0, 0};
    one(nothing);
    if (pthread_timedjoin_np(a, NULL, &soon) == ETIMEDOUT) exit(6);
  }
  if (IS("hang")) {
    while (!flag) {
    }
  }
  if (IS("unseen-lock")) two(takes_unseen_lock);
  if (IS("unseen-spin")) {
    one(sets_flag);
    while (!flag) {
    }
    pthread_join(a, NULL);
  }
  if (IS("hang-early")) {
    pthread_t c;
    sem_init(&count, 0, 0);
    pthread_create(&a, NULL, posts, NULL);
    pthread_create(&b, NULL, hangs_unless_posted, NULL);
    pthread_create(&c, NULL, tries, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    pthread_join(c, NULL);
  }
  if (IS("timeout")) {
    const struct timespec soon = {0, 0};
    one(holds_for_a_while);
    const int timed_out = pthread_mutex_timedlock(&m, &soon) == ETIMEDOUT;
    assert(!timed_out && "timed out");
    pthread_mutex_unlock(&m);
    pthread_join(a, NULL);
  }
  if (IS("errorcheck")) {
    init_mutex(PTHREAD_MUTEX_ERRORCHECK, 0);
    assert(pthread_mutex_lock(&m) == 0 && pthread_mutex_lock(&m) == EDEADLK);
    one(unlocks);
    pthread_join(a, NULL);
    assert(pthread_mutex_unlock(&m) == 0 && pthread_mutex_unlock(&m) == EPERM);
  }
  if (IS("recursive")) {
    init_mutex(PTHREAD_MUTEX_RECURSIVE, 0);
    assert(pthread_mutex_lock(&m) == 0 && pthread_mutex_lock(&m) == 0 && pthread_mutex_trylock(&m) == 0);
    assert(pthread_mutex_unlock(&m) == 0 && pthread_mutex_unlock(&m) == 0 && pthread_mutex_unlock(&m) == 0);
    two(holds_for_a_while);
  }
  if (IS("robust")) {
    init_mutex(PTHREAD_MUTEX_NORMAL, 1);
    one(locks);
    pthread_join(a, NULL);
    assert(pthread_mutex_lock(&m) == EOWNERDEAD);
    assert(pthread_mutex_consistent(&m) == 0);
    assert(pthread_mutex_unlock(&m) == 0 && pthread_mutex_lock(&m) == 0 && pthread_mutex_unlock(&m) == 0);
  }
  /* Nobody can go on but by a timeout, and whichever comes first, the other thread then gets its post. */
  if (IS("first-timeout") || IS("second-timeout")) {
    sem_init(&count, 0, 0);
    sem_init(&other_count, 0, 0);
    pthread_create(&a, NULL, waits_or_posts, &count);
    pthread_create(&b, NULL, waits_or_posts, &other_count);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    assert(timed_out != (IS("first-timeout") ? &count : &other_count));
  }
  if (IS("in-line")) {
    pthread_t all[4];
    for (int i = 0; i < 4; ++i) pthread_create(&all[i], NULL, holds_for_a_while, NULL);
    for (int i = 0; i < 4; ++i) pthread_join(all[i], NULL);
  }
  if (IS("polls")) {
    sem_init(&count, 0, 0);
    one(polls);
    holds_for_a_while(NULL);
    sem_post(&count);
    pthread_join(a, NULL);
  }
  if (IS("polls-forever")) {
    sem_init(&count, 0, 0);
    one(polls);
    pthread_join(a, NULL);
  }
  if (IS("gives-up") || IS("never-gives-up")) {
    sem_init(&count, 0, 0);
    pthread_create(&a, NULL, gives_up, NULL);
    pthread_create(&b, NULL, holds_until_posted, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    assert(!gave_up || IS("gives-up"));
  }
  if (IS("handlers")) {
    struct sigaction action;
    set_handler(SIGSEGV, leaves);
    sigaction(SIGSEGV, NULL, &action);
    assert(action.sa_handler == leaves);
    two(faults);
    assert(turn == 2 && got == SIGSEGV);
    set_handler(SIGFPE, notes);
    raise(SIGFPE);
    assert(got == SIGFPE);
    set_handler(SIGUSR1, notes);
    raise(SIGUSR1);
    assert(got == SIGUSR1);
    set_handler(SIGABRT, leaves);
    if (sigsetjmp(out, 1) == 0) abort();
    assert(got == SIGABRT);
  }
  if (IS("handler-exits")) {
    set_handler(SIGSEGV, exits_at_once);
    two(by_signal);
  }
  if (IS("handler-ends")) {
    set_handler(SIGSEGV, ends);
    two(by_signal);
  }
  if (IS("hang-late")) {
    sem_init(&count, 0, 0);
    pthread_create(&a, NULL, posts, NULL);
    pthread_create(&b, NULL, hangs_unless_posted, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
  }
  if (IS("rwlock-twice")) {
    pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
    const struct timespec now = {0, 0};
    assert(pthread_rwlock_wrlock(&l) == 0 && pthread_rwlock_wrlock(&l) == EDEADLK &&
           pthread_rwlock_rdlock(&l) == EDEADLK);
    assert(pthread_rwlock_timedrdlock(&l, &now) == EDEADLK && pthread_rwlock_timedwrlock(&l, &now) == EDEADLK);
    assert(pthread_rwlock_tryrdlock(&l) == EBUSY && pthread_rwlock_trywrlock(&l) == EBUSY);
    assert(pthread_rwlock_unlock(&l) == 0 && pthread_rwlock_rdlock(&l) == 0 && pthread_rwlock_rdlock(&l) == 0);
    assert(pthread_rwlock_unlock(&l) == 0 && pthread_rwlock_unlock(&l) == 0);
  }
  if (IS("stack")) {
    looks_at_stack(NULL);
    two(looks_at_stack);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    pthread_create(&a, &small, looks_at_stack, NULL);
    pthread_join(a, NULL);
  }
  if (IS("assume")) {
    one(assumes);
    pthread_join(a, NULL);
  }
  if (IS("assume-assert")) {
    one(assumes);
    assert(turn != 0);
  }
  if (IS("keys")) {
    pthread_key_create(&key, on_key);
    pthread_create(&a, NULL, has_key, (void*)1);
    pthread_join(a, NULL);
    pthread_create(&a, NULL, has_key, (void*)2);
    pthread_join(a, NULL);
    assert(destroyed == 3 && pthread_getspecific(key) == NULL);
  }
  if (IS("files")) {
    FILE* file = tmpfile();
    fprintf(file, "text");
    fclose(file);
    two(holds_for_a_while);
  }
  if (IS("time")) {
    const time_t then = time(NULL);
    sleep(1000);
    assert(time(NULL) >= then + 1000);
    two(holds_for_a_while);
  }
  if (IS("clocks")) {
    pthread_create(&a, NULL, sleeps_then_looks_at_clock, (void*)10);
    pthread_create(&b, NULL, sleeps_then_looks_at_clock, (void*)20);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    assert(now.tv_sec > last.tv_sec || now.tv_nsec >= last.tv_nsec);
  }
  if (IS("old-sleeps")) {
    const time_t then = time(NULL);
    struct timeval two_s = {2, 0};
    assert(select(0, NULL, NULL, NULL, &two_s) == 0 && poll(NULL, 0, 2000) == 0);
    assert(time(NULL) >= then + 4);
    one(sets_flag);
    while (!flag) poll(NULL, 0, 1);
    pthread_join(a, NULL);
  }
  if (IS("kill-thread")) {
    signal(SIGUSR1, notes);
    one(nothing);
    assert(pthread_kill(a, 0) == 0 && pthread_kill(a, SIGUSR1) == 0);
    pthread_join(a, NULL);
    assert(got == 0 || got == SIGUSR1);  // the thread may have ended before
  }
  if (IS("stream")) {
    stream = fopen("log", "w");
    two(writes_line);
    rewind(stream);
    assert(ftell(stream) == 0 && fclose(stream) == 0);
    char text[16] = "";
    stream = fopen("log", "r");
    assert(fread(text, 1, sizeof text, stream) == 10 && strncmp(text, "line\nline\n", 10) == 0);
    fclose(stream);
  }
  if (IS("till-late")) {
    one(polls_till_late);
    pthread_join(a, NULL);
  }
  if (IS("pids")) {
    srand((unsigned)getpid());
    assert(getpid() == 32000 && syscall(SYS_getpid) == getpid() && gettid() == syscall(SYS_gettid));
    signal(SIGUSR1, notes);
    kill(getpid(), SIGUSR1);
    assert(got == SIGUSR1);
    two(holds_for_a_while);
  }
  if (IS("many-keys")) {
    pthread_key_t one_of_many;
    for (int i = 0; i < 1000; ++i) assert(pthread_key_create(&one_of_many, NULL) == 0);
  }
  if (IS("free-twice") || IS("free-once")) {
    block = malloc(100);
    two(IS("free-twice") ? frees_block : takes_block);
  }
  if (IS("free-inside")) {
    volatile int inside = 16;
    block = malloc(100);
    free(block + inside);
  }
  if (IS("main-exits")) {
    one(holds_for_a_while);
    pthread_detach(a);
    pthread_exit(NULL);
  }
  if (IS("unrepeatable")) {
    for (unsigned i = 0; i < *executions; ++i) pthread_mutex_lock(&m), pthread_mutex_unlock(&m);
    ++*executions;
    two(holds_for_a_while);
  }
  if (IS("temporary")) two(makes_temporary_files);
  if (IS("unrepeatable-late")) {
    two(holds_for_a_while);
    for (unsigned i = 0; i < *executions; ++i) pthread_mutex_lock(&m), pthread_mutex_unlock(&m);
    ++*executions;
  }
  if (IS("kill-self")) kill(getpid(), SIGKILL);
  if (IS("kill-by-thread")) pthread_kill(pthread_self(), SIGKILL);
  if (IS("kill-server")) {
    two(holds_for_a_while);
    kill(getppid(), SIGKILL);
  }
  if (IS("maps-index") || IS("maps-file")) {
    const int fd = open(IS("maps-index") ? "notes.db-shm" : "notes", O_CREAT | O_RDWR, 0644);
    if (ftruncate(fd, 4096) != 0) return 9;
    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (IS("fork") && fork() == 0) _exit(0);
  if (IS("socket")) socket(AF_INET, SOCK_STREAM, 0);
  return 0;
}
