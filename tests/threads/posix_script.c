/* Threads that do what their arguments say, for tests that make up programs. The first argument says how the objects
 * begin: kinds of two mutexes, counts of two semaphores, numbers of two barriers, and whether handlers of signals block
 * them (b) or not. Each further one is a thread, the
 * first of them main: two characters a call, what to do and with which object (tests/posix_model.h lists them). What a
 * call results in is told by a semaphore of its own, which begins with the result and one: whoever runs this sees how
 * objects begin, and no thread has to wait for it or meets another there.
 * WITH_SIGNALS: there are signals too; a program that refers to the functions that send them is scheduled otherwise.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef WITH_SIGNALS
#include <signal.h>
#include <unistd.h>
#endif

enum { kObjects = 2, kThreads = 4, kCalls = 32, kSerials = kCalls - 2, kEnd = kCalls - 1, kBase = 9999 };

static sem_t told[kThreads][kCalls];
static pthread_mutex_t mutexes[kObjects];
static pthread_rwlock_t rwlocks[kObjects];
static sem_t semaphores[kObjects];
static pthread_barrier_t barriers[kObjects];
static pthread_once_t onces[kObjects];
static pthread_cond_t conditions[kObjects];
static int variables[kObjects];
static pthread_t threads[kThreads];
static char is_joined[kThreads];
static const char* kinds;

struct thread {
  int number, at, serials;
  const char* script;
  int held[kObjects], reads[kObjects], writes[kObjects];
};
static struct thread all[kThreads];
static __thread int ran_routine;

#ifdef WITH_SIGNALS
static __thread int handled, blocked[kObjects];
static const int numbers[kObjects] = {SIGUSR1, SIGUSR2};
static void count(int number) { handled += number == numbers[0] ? 1000 : 50000; }

static sigset_t set_of(int i) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, numbers[i]);
  return set;
}
static int change_mask(int how, int i) {
  const sigset_t set = set_of(i);
  blocked[i] = how == SIG_BLOCK;
  return pthread_sigmask(how, &set, NULL);
}
static int wait_for(int i) {
  const sigset_t set = set_of(i);
  int number;
  return sigwait(&set, &number);
}
static int wait_for_a_while(int i) {
  const sigset_t set = set_of(i);
  const struct timespec second = {1, 0};
  return sigtimedwait(&set, NULL, &second) == numbers[i] ? 0 : errno;
}
static void install_handlers(int blocks) {
  for (int i = 0; i < kObjects; ++i) {
    struct sigaction action = {0};
    action.sa_handler = count;
    action.sa_flags = blocks ? 0 : SA_NODEFER;
    sigaction(numbers[i], &action, NULL);
  }
}
#else
static const int handled = 0, blocked[kObjects];
static void install_handlers(int blocks) { (void)blocks; }
#endif

static void tell(int thread, int call, int result) { sem_init(&told[thread][call], 0, (unsigned)result + 1); }

static struct timespec* soon(struct timespec* until) {
  clock_gettime(CLOCK_REALTIME, until);
  ++until->tv_sec;
  return until;
}

static int by_errno(int result) { return result == 0 ? 0 : errno; }

static void do_nothing(void) { ran_routine = 1; }
static void wait_for_semaphore(void) {
  sem_wait(&semaphores[0]);
  ran_routine = 1;
}

static int run_once(int i, void (*routine)(void)) {
  ran_routine = 0;
  pthread_once(&onces[i], routine);
  return ran_routine;
}

static int note_lock(struct thread* self, int i, int result) {
  if (result == 0 || result == EOWNERDEAD) ++self->held[i];
  return result;
}
static int note_unlock(struct thread* self, int i, int result) {
  if (result == 0) --self->held[i];
  return result;
}
static int note_rwlock(int* count, int result) {
  if (result == 0) ++*count;
  return result;
}
static int unlock_rwlock(struct thread* self, int i) {
  --*(self->writes[i] > 0 ? &self->writes[i] : &self->reads[i]);
  return pthread_rwlock_unlock(&rwlocks[i]);
}

/* It is held again after the wait, but for a robust one that is lost. */
static int note_wait(struct thread* self, int result) {
  if (result == ENOTRECOVERABLE) --self->held[0];
  return result;
}

static int wait_at_barrier(struct thread* self, int i) {
  if (pthread_barrier_wait(&barriers[i]) == PTHREAD_BARRIER_SERIAL_THREAD)
    tell(self->number, kSerials, ++self->serials);
  return 0;
}

static int get_value(int i) {
  int value;
  sem_getvalue(&semaphores[i], &value);
  return value;
}

/* 1 where the thread was cancelled. */
static int note_join(int i, int result, void* value) {
  if (result != 0) return result;
  is_joined[i] = 1;
  return value == PTHREAD_CANCELED;
}

static int is_defined(const struct thread* self, char what, int i) {
  switch (what) {
    case 'u':
    case '+':
      return self->held[i] > 0;
    case 'U':
      return kinds[i] != 'n';
    case '!':
      return kinds[i] == 'd' && self->held[i] > 0;
    case 'r':
    case 'R':
      return self->writes[i] == 0;
    case 'w':
    case 'W':
      return self->writes[i] == 0 && self->reads[i] == 0;
    case 'v':
      return self->writes[i] > 0 || self->reads[i] > 0;
    case 'c':
    case 'C':
      return self->held[0] == 1 || (self->held[0] == 0 && kinds[0] == 'e');
    case 'j':
    case 'J':
    case 'k':
      return !is_joined[i];
    case 'x':
    case 'K':
    case 'L':
      return self->number != 0 || !is_joined[i];
    case 'm':
      return !blocked[i];
    case 'M':
    case 'S':
    case 'Z':
      return blocked[i];
    default:
      return 1;
  }
}

static int call(struct thread* self, char what, int i) {
  struct timespec until;
  void* value = NULL;
  switch (what) {
    case 'l':
      return note_lock(self, i, pthread_mutex_lock(&mutexes[i]));
    case 't':
      return note_lock(self, i, pthread_mutex_trylock(&mutexes[i]));
    case 'T':
      return note_lock(self, i, pthread_mutex_timedlock(&mutexes[i], soon(&until)));
    case 'u':
    case 'U':
      return note_unlock(self, i, pthread_mutex_unlock(&mutexes[i]));
    case '!':
      return pthread_mutex_consistent(&mutexes[i]);
    case 'r':
      return note_rwlock(&self->reads[i], pthread_rwlock_rdlock(&rwlocks[i]));
    case 'w':
      return note_rwlock(&self->writes[i], pthread_rwlock_wrlock(&rwlocks[i]));
    case 'a':
      return note_rwlock(&self->reads[i], pthread_rwlock_tryrdlock(&rwlocks[i]));
    case 'b':
      return note_rwlock(&self->writes[i], pthread_rwlock_trywrlock(&rwlocks[i]));
    case 'R':
      return note_rwlock(&self->reads[i], pthread_rwlock_timedrdlock(&rwlocks[i], soon(&until)));
    case 'W':
      return note_rwlock(&self->writes[i], pthread_rwlock_timedwrlock(&rwlocks[i], soon(&until)));
    case 'v':
      return unlock_rwlock(self, i);
    case 'p':
      return by_errno(sem_wait(&semaphores[i]));
    case 'q':
      return by_errno(sem_trywait(&semaphores[i]));
    case 'Q':
      return by_errno(sem_timedwait(&semaphores[i], soon(&until)));
    case 's':
      return by_errno(sem_post(&semaphores[i]));
    case 'g':
      return get_value(i);
    case 'B':
      return wait_at_barrier(self, i);
    case 'o':
      return run_once(i, do_nothing);
    case 'O':
      return run_once(i, wait_for_semaphore);
    case 'c':
      return note_wait(self, pthread_cond_wait(&conditions[i], &mutexes[0]));
    case 'C':
      return note_wait(self, pthread_cond_timedwait(&conditions[i], &mutexes[0], soon(&until)));
    case 'n':
      return pthread_cond_signal(&conditions[i]);
    case 'N':
      return pthread_cond_broadcast(&conditions[i]);
    case '+':
      return variables[i]++;
    case 'j': {
      const int result = pthread_join(threads[i], &value);
      return note_join(i, result, value);
    }
    case 'J': {
      const int result = pthread_timedjoin_np(threads[i], &value, soon(&until));
      return note_join(i, result, value);
    }
    case 'k': {
      const int result = pthread_tryjoin_np(threads[i], &value);
      return note_join(i, result, value);
    }
    case 'x':
      return pthread_cancel(threads[i]);
    case 'y':
      pthread_testcancel();
      return 0;
#ifdef WITH_SIGNALS
    case 'K':
      return pthread_kill(threads[i], numbers[0]);
    case 'L':
      return pthread_kill(threads[i], numbers[1]);
    case 'P':
      return by_errno(kill(getpid(), numbers[i]));
    case 'm':
      return change_mask(SIG_BLOCK, i);
    case 'M':
      return change_mask(SIG_UNBLOCK, i);
    case 'S':
      return wait_for(i);
    case 'Z':
      return wait_for_a_while(i);
#endif
    default:
      abort();
  }
}

/* Of a thread that is cancelled. */
static void clean_up(void* argument) {
  struct thread* self = argument;
  tell(self->number, self->at, ECANCELED);
  tell(self->number, kEnd, 2);
  for (int i = 0; i < kObjects; ++i) {
    for (; self->held[i] > 0; --self->held[i]) pthread_mutex_unlock(&mutexes[i]);
  }
  for (int i = 0; i < kObjects; ++i) {
    while (self->writes[i] + self->reads[i] > 0) unlock_rwlock(self, i);
  }
}

static void* run(void* argument) {
  struct thread* self = argument;
  pthread_cleanup_push(clean_up, self);
  for (self->at = 0; self->script[2 * self->at] != '.' && self->script[2 * self->at] != 0; ++self->at) {
    const char* at = self->script + 2 * self->at;
    if (!is_defined(self, at[0], at[1] - '0')) continue;
    const int result = call(self, at[0], at[1] - '0');
    tell(self->number, self->at, result + handled);
  }
  pthread_cleanup_pop(0);
  tell(self->number, kEnd, 1);
  return NULL;
}

static void init_mutex(int i) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, kinds[i] == 'r'   ? PTHREAD_MUTEX_RECURSIVE
                                         : kinds[i] == 'e' ? PTHREAD_MUTEX_ERRORCHECK
                                                           : PTHREAD_MUTEX_NORMAL);
  pthread_mutexattr_setrobust(&attributes, kinds[i] == 'd' ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED);
  pthread_mutex_init(&mutexes[i], &attributes);
}

int main(int argc, char** argv) {
  kinds = argv[1];
  threads[0] = pthread_self();
  install_handlers(argv[1][3 * kObjects] == 'b');
  sem_init(&told[0][0], 0, kBase);
  for (int i = 0; i < kObjects; ++i) {
    init_mutex(i);
    pthread_rwlock_init(&rwlocks[i], NULL);
    sem_init(&semaphores[i], 0, (unsigned)(argv[1][kObjects + i] - '0'));
    pthread_barrier_init(&barriers[i], NULL, (unsigned)(argv[1][2 * kObjects + i] - '0'));
    pthread_cond_init(&conditions[i], NULL);
  }
  for (int i = 0; i < argc - 2; ++i) {
    all[i].number = i;
    all[i].script = argv[i + 2];
  }
  for (int i = 1; i < argc - 2; ++i) pthread_create(&threads[i], NULL, run, &all[i]);
  run(&all[0]);
  pthread_exit(NULL);
}
