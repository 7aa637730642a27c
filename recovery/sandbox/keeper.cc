#include "recovery/sandbox/keeper.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

namespace crashcut::sandbox {
namespace {

constexpr char kBorrow = 'b';
constexpr char kGiveBack = 'g';
constexpr char kYes = 'y';
constexpr char kNo = 'n';

// SIGTTOU is ignored in a keeper and blocked here for other callers: otherwise a process that changes a terminal from
// the background is stopped.
void set_foreground(int terminal, pid_t group) {
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGTTOU);
  pthread_sigmask(SIG_BLOCK, &set, &before);
  tcsetpgrp(terminal, group);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool receive(int fd, char& byte) {
  ssize_t size;
  while ((size = recv(fd, &byte, 1, 0)) < 0 && errno == EINTR) {
  }
  return size == 1;
}

bool ask(int keeper, char question) {
  char answer = kNo;
  return keeper >= 0 && send(keeper, &question, 1, MSG_NOSIGNAL) == 1 && receive(keeper, answer) && answer == kYes;
}

}  // namespace

bool Keeper::serve() {
  char question = 0;
  if (fd_ < 0 || !receive(fd_, question)) {
    fd_ = -1;
    return false;
  }
  char answer = kYes;
  if (question == kBorrow) {
    termios settings;
    const bool is_ours = terminal_ >= 0 && tcgetpgrp(terminal_) == getpgrp() && tcgetattr(terminal_, &settings) == 0;
    if (is_ours) settings_ = settings;
    answer = is_ours ? kYes : kNo;
  } else {
    take_back();
  }
  send(fd_, &answer, 1, MSG_NOSIGNAL);
  return true;
}

void Keeper::take_back() {
  if (!settings_) return;
  set_foreground(terminal_, getpgrp());
  // At once: what a dead command has not had printed may never be, on a terminal that was stopped with Ctrl-S.
  tcsetattr(terminal_, TCSANOW, &*settings_);
  settings_.reset();
}

bool borrow_terminal(int keeper) { return ask(keeper, kBorrow); }
void give_back_terminal(int keeper) { ask(keeper, kGiveBack); }

void take_back_from_the_dead(int terminal) {
  const pid_t group = terminal >= 0 ? tcgetpgrp(terminal) : -1;
  if (group > 0 && group != getpgrp() && kill(-group, 0) != 0 && errno == ESRCH) set_foreground(terminal, getpgrp());
}

}  // namespace crashcut::sandbox
