// Keeper: lends the controlling terminal to a command inside a sandbox and takes it back.
//
// A command that talks to a person must be the terminal's foreground process group, or it stops when it reads. It
//   makes itself that. But the group that was in the foreground before is outside of the PID namespace, where nobody
//   inside can name it: someone outside has to put it back, also when the whole sandbox was killed in between. That
//   is the keeper's process. It restores the terminal's settings too.
#pragma once

#include <termios.h>

#include <optional>

namespace crashcut::sandbox {

class Keeper {
 public:
  // `terminal` may be -1, and `fd` too: then there is nothing to keep.
  Keeper(int terminal, int fd) : terminal_(terminal), fd_(fd) {}

  // The socket on which it is asked; -1 when the other side is gone.
  int fd() const { return fd_; }
  // Waits for one question and answers it; false when the other side is gone.
  bool serve();
  // Foreground and settings as they were when lent; nothing if it is not lent.
  void take_back();

 private:
  int terminal_;
  int fd_;
  std::optional<termios> settings_;  // while it is lent
};

// In the sandbox: whether the caller may make a command the terminal's foreground; it may not when crashcut itself
// is in the background. Then give_back() once the command has ended; returns when it is done.
bool borrow_terminal(int keeper);
void give_back_terminal(int keeper);

// The keeper itself was killed: the foreground is ours again if the group that has it is dead.
void take_back_from_the_dead(int terminal);

}  // namespace crashcut::sandbox
