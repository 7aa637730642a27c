// Signals between threads. The first argument says which.
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define IS(name) (strcmp(argv[1], name) == 0)

static pthread_t a, main_thread, got_by;
static volatile sig_atomic_t got, count, depth, deepest;
static int p[2], interrupted, value;
static sem_t s;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static sigset_t usr1;

static void notes(int number) {
  got = number;
  got_by = pthread_self();
  ++count;
}
static void notes_value(int number, siginfo_t* info, void* context) {
  assert(context != NULL && info->si_signo == number && info->si_code == SI_QUEUE && info->si_pid == getpid());
  got = number;
  value = value * 10 + info->si_value.sival_int;
}
static void nests(int number) {
  if (++depth > deepest) deepest = depth;
  if (++count < 3) raise(number);
  --depth;
}
static void locks(int number) {
  (void)number;
  pthread_mutex_lock(&m);
  pthread_mutex_unlock(&m);
}

static void handle(int number, void (*handler)(int), int flags) {
  struct sigaction action = {0};
  action.sa_handler = handler;
  action.sa_flags = flags;
  assert(sigaction(number, &action, NULL) == 0);
}
static void one(void* (*routine)(void*)) { assert(pthread_create(&a, NULL, routine, NULL) == 0); }
static void block(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  assert(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}

static void* nothing(void* unused) { return unused; }
static void* waits_for_usr1(void* unused) {
  int number = 0;
  assert(sigwait(&usr1, &number) == 0 && number == SIGUSR1);
  got = number;
  return unused;
}
static void* takes_unit(void* unused) {
  if (sem_wait(&s) != 0) {
    assert(errno == EINTR);
    interrupted = 1;
    while (sem_wait(&s) != 0) assert(errno == EINTR);
  }
  return unused;
}
static void* reads_byte(void* unused) {
  char byte;
  ssize_t n = read(p[0], &byte, 1);
  if (n < 0) {
    assert(errno == EINTR);
    interrupted = 1;
    n = read(p[0], &byte, 1);
  }
  assert(n == 1);
  return unused;
}
static void* pauses(void* unused) {
  if (!got) pause();
  return unused;
}
static void* suspends(void* unused) {
  sigset_t none;
  sigemptyset(&none);
  block(SIGUSR1);
  sem_post(&s);
  while (!got) assert(sigsuspend(&none) == -1 && errno == EINTR);
  return unused;
}
static void* polls_with_mask(void* unused) {
  sigset_t none;
  sigemptyset(&none);
  block(SIGUSR1);
  sem_post(&s);
  while (!got) assert(ppoll(NULL, 0, NULL, &none) == -1 && errno == EINTR);
  assert(count == 1);
  return unused;
}
static void* locks_m(void* unused) {
  pthread_mutex_lock(&m);
  pthread_mutex_unlock(&m);
  return unused;
}
static void* locks_m_blocked(void* unused) {
  block(SIGUSR1);
  sem_post(&s);
  locks_m(NULL);
  return unused;
}
static void* sends_to_process(void* unused) {
  assert(kill(getpid(), SIGUSR1) == 0);
  return unused;
}
static void* reads_signals(void* unused) {
  const int fd = signalfd(-1, &usr1, 0);
  assert(fd >= 0);
  struct signalfd_siginfo info[2];
  assert(read(fd, info, 16) == -1 && errno == EINVAL);
  assert(read(fd, info, sizeof info) == sizeof info[0]);
  assert(info[0].ssi_signo == SIGUSR1 && info[0].ssi_pid == (unsigned)getpid());
  got = SIGUSR1;
  assert(close(fd) == 0);
  return unused;
}
static void* polls_signals(void* unused) {
  const int fd = signalfd(-1, &usr1, SFD_NONBLOCK);
  struct pollfd polled[2] = {{fd, POLLIN | POLLOUT, 0}, {p[0], POLLIN, 0}};
  assert(poll(polled, 2, -1) >= 1);
  assert(polled[0].revents == POLLIN || (polled[0].revents == 0 && polled[1].revents == POLLIN));
  struct signalfd_siginfo info;
  if (polled[0].revents != 0) assert(read(fd, &info, sizeof info) == sizeof info);
  assert(read(fd, &info, sizeof info) == -1 && errno == EAGAIN);
  got = polled[0].revents;
  return unused;
}
static void* sleeps(void* unused) {
  struct timespec second = {1, 0}, left = {0, 0};
  if (nanosleep(&second, &left) != 0) assert(errno == EINTR && left.tv_sec == 1), interrupted = 1;
  return unused;
}

int main(int argc, char** argv) {
  assert(argc == 2);
  main_thread = pthread_self();
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  sem_init(&s, 0, 0);
  assert(pipe(p) == 0);
  if (IS("sigwait") || IS("sigwait-of-process")) {
    block(SIGUSR1);
    one(waits_for_usr1);
    assert((IS("sigwait") ? pthread_kill(a, SIGUSR1) : kill(getpid(), SIGUSR1)) == 0);
    pthread_join(a, NULL);
    assert(got == SIGUSR1);
  }
  if (IS("signalfd") || IS("signalfd-of-process") || IS("signalfd-of-other")) {
    block(SIGUSR1);
    one(reads_signals);
    const pthread_t target = IS("signalfd-of-other") ? main_thread : a;
    assert((IS("signalfd-of-process") ? kill(getpid(), SIGUSR1) : pthread_kill(target, SIGUSR1)) == 0);
    pthread_join(a, NULL);
    assert(got == SIGUSR1);
  }
  if (IS("polls-signalfd") || IS("polls-signalfd-right")) {
    block(SIGUSR1);
    one(polls_signals);
    if (IS("polls-signalfd")) assert(write(p[1], "x", 1) == 1);
    pthread_kill(a, SIGUSR1);
    pthread_join(a, NULL);
    assert(got == POLLIN);
  }
  if (IS("signalfd-and-sigwait")) {
    block(SIGUSR1);
    one(reads_signals);
    kill(getpid(), SIGUSR1);
    int number;
    sigwait(&usr1, &number);
    pthread_join(a, NULL);
  }
  if (IS("sigwait-unblocked")) {
    one(waits_for_usr1);
    pthread_kill(a, SIGUSR1);
    pthread_join(a, NULL);
  }
  if (IS("sigwait-of-nothing")) {
    block(SIGUSR1);
    one(waits_for_usr1);
    pthread_join(a, NULL);
  }
  if (IS("dies")) {
    one(nothing);
    pthread_kill(a, SIGTERM);
    pthread_join(a, NULL);
  }
  if (IS("ignored")) {
    signal(SIGTERM, SIG_IGN);
    one(nothing);
    assert(pthread_kill(a, SIGTERM) == 0 && pthread_kill(a, SIGCHLD) == 0 && pthread_kill(a, 0) == 0 &&
           pthread_kill(a, 65) == EINVAL);
    pthread_join(a, NULL);
  }
  if (IS("any-thread") || IS("main-only")) {
    handle(SIGUSR1, notes, 0);
    if (IS("main-only")) block(SIGUSR1);
    one(nothing);
    if (IS("main-only")) pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    kill(getpid(), SIGUSR1);
    if (IS("main-only")) assert(got == SIGUSR1);  // nobody else would take it, so kill() did not return before
    pthread_join(a, NULL);
    assert(!got || pthread_equal(got_by, main_thread));
  }
  if (IS("pauses-too-late")) {
    handle(SIGUSR1, notes, 0);
    one(pauses);
    pthread_kill(a, SIGUSR1);
    pthread_join(a, NULL);
  }
  if (IS("suspends") || IS("polls-with-mask")) {
    handle(SIGUSR1, notes, 0);
    one(IS("suspends") ? suspends : polls_with_mask);
    while (sem_wait(&s) != 0) assert(errno == EINTR);
    pthread_kill(a, SIGUSR1);
    pthread_join(a, NULL);
    assert(count == 1 && pthread_equal(got_by, a));
  }
  if (IS("sem-fails") || IS("sem-goes-on") || IS("sem-right")) {
    handle(SIGUSR1, notes, IS("sem-goes-on") ? SA_RESTART : 0);
    one(takes_unit);
    pthread_kill(a, SIGUSR1);
    sem_post(&s);
    pthread_join(a, NULL);
    assert(IS("sem-right") || !interrupted);
  }
  if (IS("read-fails") || IS("read-goes-on")) {
    handle(SIGUSR1, notes, IS("read-goes-on") ? SA_RESTART : 0);
    one(reads_byte);
    pthread_kill(a, SIGUSR1);
    assert(write(p[1], "x", 1) == 1);
    pthread_join(a, NULL);
    assert(!interrupted);
  }
  if (IS("sleep-fails")) {
    handle(SIGUSR1, notes, SA_RESTART);
    one(sleeps);
    pthread_kill(a, SIGUSR1);
    pthread_join(a, NULL);
    assert(!interrupted);
  }
  if (IS("raise")) {
    handle(SIGUSR1, notes, 0);
    raise(SIGUSR1);
    assert(count == 1);
    pthread_kill(pthread_self(), SIGUSR1);
    assert(count == 2);
    kill(getpid(), SIGUSR1);
    assert(count == 3);
    syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
    assert(count == 4);
  }
  if (IS("blocked")) {
    sigset_t set;
    handle(SIGUSR1, notes, 0);
    block(SIGUSR1);
    assert(sigpending(&set) == 0 && !sigismember(&set, SIGUSR1));
    raise(SIGUSR1);
    raise(SIGUSR1);  // it is pending already
    assert(count == 0 && sigpending(&set) == 0 && sigismember(&set, SIGUSR1));
    pthread_sigmask(SIG_UNBLOCK, &usr1, &set);
    assert(count == 1 && sigismember(&set, SIGUSR1));
  }
  if (IS("once")) {
    handle(SIGUSR1, notes, SA_RESETHAND);
    raise(SIGUSR1);
    assert(count == 1);
    raise(SIGUSR1);
  }
  if (IS("nested") || IS("not-nested")) {
    handle(SIGUSR1, nests, IS("nested") ? SA_NODEFER : 0);
    raise(SIGUSR1);
    assert(count == 3 && deepest == (IS("nested") ? 3 : 1));
  }
  if (IS("queue")) {
    struct sigaction action = {0};
    action.sa_sigaction = notes_value;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGRTMIN, &action, NULL);
    block(SIGRTMIN);
    for (int i = 1; i <= 3; ++i) assert(sigqueue(getpid(), SIGRTMIN, (union sigval){i}) == 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    siginfo_t info;
    assert(sigwaitinfo(&set, &info) == SIGRTMIN && info.si_value.sival_int == 1);
    assert(pthread_sigqueue(pthread_self(), SIGRTMIN, (union sigval){4}) == 0);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    assert(value == 423);  // its own first
  }
  if (IS("in-time") || IS("for-a-while")) {
    block(SIGUSR1);
    one(sends_to_process);
    struct timespec second = {1, 0};
    const int number = sigtimedwait(&usr1, NULL, &second);
    if (IS("in-time")) assert(number == SIGUSR1);
    assert(number == SIGUSR1 || (number == -1 && errno == EAGAIN));
    pthread_join(a, NULL);
  }
  if (IS("handler-locks") || IS("handler-locks-blocked")) {
    handle(SIGUSR1, locks, 0);
    one(IS("handler-locks") ? locks_m : locks_m_blocked);
    if (IS("handler-locks-blocked"))
      while (sem_wait(&s) != 0) assert(errno == EINTR);
    pthread_kill(a, SIGUSR1);
    pthread_join(a, NULL);
  }
  return 0;
}
