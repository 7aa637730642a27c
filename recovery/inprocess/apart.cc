#include "recovery/inprocess/apart.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace crashcut::inprocess {

int run_apart(const std::function<int()>& steps) {
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  // As fork() does, but for the descriptors. The memory is not shared.
  const long child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(steps());
  int status = 0;
  pid_t ended = -1;
  while (child > 0 && (ended = waitpid(static_cast<pid_t>(child), &status, 0)) < 0 && errno == EINTR) {
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace crashcut::inprocess
