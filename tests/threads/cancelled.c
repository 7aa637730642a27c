// Threads that are cancelled while they wait for data, for a descriptor, or for a signal. The first argument says in
// which wait.
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const char* wait_name;
static int fds[2], others[2];
static sem_t never;

static int is(const char* name) { return strcmp(wait_name, name) == 0; }

// The trick of the pipe to oneself: the handler comes to a cancellation point of its own.
static void write_a_byte(int number) {
  const char c = (char)number;
  (void)!write(others[1], &c, 1);
}

static void* wait_for_good(void* unused) {
  (void)unused;
  char c;
  sigset_t set;
  sigemptyset(&set);
  struct pollfd p = {fds[0], POLLIN, 0};
  if (is("read")) assert(read(fds[0], &c, 1) == 1);
  if (is("poll")) assert(poll(&p, 1, -1) == 1);
  if (is("pause")) pause();
  if (is("sigsuspend")) sigsuspend(&set);
  if (is("handler")) sem_wait(&never);
  sigaddset(&set, SIGUSR2);
  int number = 0;
  if (is("sigwait")) assert(sigwait(&set, &number) == 0);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  wait_name = argv[1];
  assert(pipe(fds) == 0);
  sem_init(&never, 0, 0);
  pthread_t thread;
  if (is("handler")) {
    assert(pipe(others) == 0);
    struct sigaction action = {0};
    action.sa_handler = write_a_byte;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, NULL);
  }
  pthread_create(&thread, NULL, wait_for_good, NULL);
  if (is("handler")) pthread_kill(thread, SIGUSR1);
  pthread_cancel(thread);
  void* result = NULL;
  pthread_join(thread, &result);
  assert(result == PTHREAD_CANCELED);
  return 0;
}
