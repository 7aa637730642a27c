/* Signal handlers, alarms, masks: as without crashcut. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

#include "../../include/crashcut.h"

static volatile sig_atomic_t seen;
static void on_alarm(int s) {
  (void)s;
  int fd = open("from_handler", O_CREAT | O_WRONLY, 0600);
  assert(fd >= 0);
  close(fd);
  seen = 1;
}

int main(void) {
  struct sigaction action = {0};
  action.sa_handler = on_alarm;
  sigfillset(&action.sa_mask);
  sigaction(SIGALRM, &action, NULL);
  struct itimerval soon = {{0, 0}, {0, 20000}};
  setitimer(ITIMER_REAL, &soon, NULL);
  int got = pause();
  assert(got == -1 && errno == EINTR && seen);
  sigset_t all, old;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &old);
  assert(access("from_handler", F_OK) == 0);
  raise(SIGALRM);
  seen = 0;
  sigprocmask(SIG_SETMASK, &old, NULL);
  assert(seen);
  puts("main done");
  return 0;
}

void crashcut_recover(void) { printf("%d\n", access("from_handler", F_OK)); }
