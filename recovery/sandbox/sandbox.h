// Sandbox: a process that takes along everything it started and mounted when it ends, however it ends.
//
// The process is PID 1 of its own PID namespace, in its own mount namespace. When it dies the kernel kills all that
//   is inside, and what was mounted inside is gone with the last of them: no clean-up code of ours has to run, so
//   kill -9 of any process at any time leaves nothing. It dies by itself when the process that made it does.
// Users who are not root get a user namespace as well, in which they are still themselves and may mount FUSE.
//
// Where namespaces are not permitted (many containers): kSubreaper. A supervisor process between the two collects
//   what the sandbox leaves and kills it, found through /proc. Best effort: it holds when any one process is killed,
//   not when supervisor and sandbox are killed at the same moment, and a mount is removed by Options::cleanup only.
//
// Threads: start() is a fork. The function may do what a forked child may: all of the C library if the caller was
//   single-threaded or no other thread held a lock of its own that the function needs. It runs on a thread of its
//   own, so it may use pthreads; it ends without running destructors or atexit handlers. A sandbox dies with the
//   process that made it, not with the thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "recovery/sandbox/fd.h"

namespace crashcut::sandbox {

enum class Mode {
  kNamespaces,      // root
  kUserNamespaces,  // anyone, where the system allows it
  kSubreaper,       // best effort
};

// What the function in the sandbox is told.
struct Inside {
  Mode mode = Mode::kNamespaces;
  int socket = -1;        // SOCK_SEQPACKET; the other end is Sandbox::socket()
  int keeper = -1;        // to the process that hands the terminal back; -1: no terminal. Used by command.h
  bool has_proc = false;  // /proc is that of the sandbox; else process ids in it are those of the outside
  pid_t first_pid = 0;    // as in Options
};

struct Options {
  // None: the best that is permitted.
  std::optional<Mode> mode;
  // Commands inside may become the foreground of the controlling terminal; it is handed back after each, and when
  // the sandbox ends. Costs one more sleeping process.
  bool with_terminal = false;
  // Processes and threads inside at once, kept by the kernel from 6.14 on; 0: as many as the system allows.
  unsigned max_processes = 8192;
  // Every command's process has this number, or the next that is free; 0: as the kernel counts on. Not with kSubreaper.
  pid_t first_pid = 0;
  // The number that /proc/self/ns/pid shows inside; 0: any. Only root gets it, and only while no namespace has it.
  std::uint64_t pid_namespace = 0;
  // kSubreaper only: runs when all processes are dead, more than once and in several processes, so that one does
  // whichever is killed; here a mount is removed. It must not allocate memory.
  std::function<void()> cleanup;
};

class Sandbox {
 public:
  // Runs `function` inside; its result is the exit code. The error is a sentence.
  static tl::expected<Sandbox, std::string> start(std::function<int(const Inside&)> function, Options options = {});

  Sandbox(Sandbox&& other) noexcept;
  Sandbox& operator=(Sandbox&& other) noexcept;
  ~Sandbox();  // stop() and wait()

  Mode mode() const { return mode_; }
  // kSubreaper: why it is not better, a sentence; else empty.
  const std::string& why_weak() const { return why_weak_; }
  int socket() const { return socket_.get(); }
  pid_t pid() const { return pid_; }
  // The number that /proc/self/ns/pid shows inside.
  std::uint64_t pid_namespace() const;

  // SIGKILL to all that is inside. Does not wait. Harmless when it has ended.
  void stop();
  // Until all processes of the sandbox have ended and its mounts are gone: exit code, or 128 + the signal. Again: the
  // same.
  int wait();

 private:
  Sandbox() = default;
  static tl::expected<Sandbox, std::string> start_in(Mode mode, const std::function<int(const Inside&)>& function,
                                                     const Options& options);

  Mode mode_ = Mode::kNamespaces;
  std::string why_weak_;
  std::function<void()> cleanup_;
  Fd socket_;
  Fd terminal_;
  pid_t pid_ = -1;     // PID 1 of the sandbox; kSubreaper: its supervisor
  pid_t keeper_ = -1;  // with a terminal, in namespaces
  int status_ = 0;
};

// The best mode permitted here, found by trying. `why` is empty unless it is kSubreaper.
struct Permitted {
  Mode mode;
  std::string why;
};
Permitted probe();

}  // namespace crashcut::sandbox
