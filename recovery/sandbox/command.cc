#include "recovery/sandbox/command.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "recovery/sandbox/descendants.h"
#include "recovery/sandbox/keeper.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif
// The thread sanitizer takes every clone() for a fork, and adjusts its records as for a copy of our memory. This child
// shares our memory, so it would adjust ours: the call is hidden from it.
#ifdef __SANITIZE_THREAD__
extern "C" int __clone(int (*)(void*), void*, int, void*, ...);
#define clone __clone
#endif

namespace crashcut::sandbox {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kKillLimit{5000};
// While a command runs, its orphans that have ended are reaped so often: they hold process ids. So often, too, a
// stopped command in the terminal is continued.
constexpr milliseconds kTick{100};
constexpr std::size_t kStackBytes = 64 << 10;
constexpr std::size_t kReadBytes = 64 << 10;

// All that the child needs, made ready before it exists: between vfork and exec it shares our memory, and our locks.
struct Launch {
  std::vector<std::string> paths;  // to try in turn
  std::vector<char*> argv;         // argv[0], "path", the rest: shifted by one for a script without #!
  std::vector<char*> environment;
  const char* directory = nullptr;
  int fds[3] = {};
  std::optional<int> core;
  int terminal = -1;
  const std::vector<int>* changed_signals = nullptr;
  bool is_orphan_killed = false;  // kSubreaper: it must not outlive us
  // Written by the child.
  const char* failed_step = nullptr;
  int error = 0;
};

// The signals that this process ignores or handles. A sandbox settles them once; sixty system calls a command are felt.
const std::vector<int>& changed_signals() {
  static const std::vector<int> changed = [] {
    std::vector<int> found;
    struct sigaction now {};
    for (int s = 1; s < NSIG; ++s) {
      if (sigaction(s, nullptr, &now) == 0 && now.sa_handler != SIG_DFL) found.push_back(s);
    }
    return found;
  }();
  return changed;
}

void put_signals_back(const std::vector<int>& changed) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (const int s : changed) sigaction(s, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool put_streams(const Launch& l) {
  // The given descriptors may be 0, 1 or 2 themselves, crosswise: out of the way first. dup2 clears close-on-exec.
  int fds[3];
  for (int i = 0; i < 3; ++i) {
    fds[i] = l.fds[i] >= 0 ? fcntl(l.fds[i], F_DUPFD, 3) : open("/dev/null", i == 0 ? O_RDONLY : O_WRONLY);
    if (fds[i] >= 0 && fds[i] < 3) fds[i] = fcntl(fds[i], F_DUPFD, 3);
    if (fds[i] < 0) return false;
  }
  for (int i = 0; i < 3; ++i) {
    if (dup2(fds[i], i) < 0) return false;
  }
  return true;
}

// A group of its own, or a session of its own. The foreground is taken here and not by the parent, so that the
// program cannot read before it has it; SIGTTOU is still blocked.
bool put_group(const Launch& l) {
  if (l.terminal < 0) return setsid() >= 0;
  return setpgid(0, 0) == 0 && tcsetpgrp(l.terminal, getpid()) == 0;
}

// execve() leaves this function in the middle. The thread sanitizer, which tracks entered functions, must not see it.
__attribute__((no_sanitize("thread"))) void exec_first(Launch& l) {
  int error = ENOENT;
  char** const environment = l.environment.data();
  for (std::string& path : l.paths) {
    execve(path.c_str(), l.argv.data() + 1, environment);
    if (errno == ENOEXEC) {
      // A script without its first line is for the shell, as execvp has it.
      char* const first = l.argv[1];
      char shell[] = "/bin/sh";
      l.argv[0] = shell;
      l.argv[1] = path.data();
      execve(shell, l.argv.data(), environment);
      l.argv[1] = first;
    }
    // As execvp: a file that may not be run is remembered, others in the PATH are tried.
    if (errno == EACCES) error = EACCES;
    if (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ESTALE || errno == ETIMEDOUT ||
        errno == ENODEV)
      continue;
    return;
  }
  errno = error;
}

// In the child: no allocation, no locks. It ends by returning; _exit() would have the sanitizer look for the stack of
// another.
__attribute__((no_sanitize("thread"))) int become(void* argument) {
  Launch& l = *static_cast<Launch*>(argument);
  const auto fail = [&](const char* step) {
    l.error = errno;
    l.failed_step = step;
    return 127;
  };
  if (l.is_orphan_killed) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (l.core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(*l.core), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) return fail("core");
  }
  if (!put_group(l)) return fail("terminal");
  if (!put_streams(l)) return fail("streams");
  close_range(3, ~0U, 0);
  if (l.directory != nullptr && chdir(l.directory) != 0) return fail("directory");
  put_signals_back(*l.changed_signals);
  exec_first(l);
  return fail("exec");
}

std::vector<std::string> find_paths(const Command& command) {
  const std::string& name = command.argv[0];
  if (name.find('/') != name.npos) return {name};
  std::string_view path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& entry : command.environment) {
    if (entry.starts_with("PATH=")) path = std::string_view(entry).substr(5);
  }
  std::vector<std::string> paths;
  while (true) {
    const auto colon = path.find(':');
    const std::string_view directory = path.substr(0, colon);
    paths.push_back(directory.empty() ? name : fmt::format("{}/{}", directory, name));
    if (colon == path.npos) return paths;
    path.remove_prefix(colon + 1);
  }
}

std::string explain(const Launch& l, const Command& command) {
  const std::string_view step = l.failed_step;
  const std::string& name = command.argv[0];
  const bool is_searched = name.find('/') == name.npos;
  if (step == "core") return fmt::format("cannot run {} on core {}: {}", name, *command.core, strerror(l.error));
  if (step == "directory") return fmt::format("cannot run {} in {}: {}", name, command.directory, strerror(l.error));
  if (step != "exec") return fmt::format("cannot set up the {} of {}: {}", step, name, strerror(l.error));
  switch (l.error) {
    case ENOENT:
      // Also what the kernel says when the file is there and what it needs is not.
      if (is_searched) return fmt::format("{}: not found in PATH", name);
      return access(name.c_str(), F_OK) == 0
                 ? fmt::format("{}: its interpreter (the first line, or the dynamic loader) was not found", name)
                 : fmt::format("{}: not found", name);
    case EACCES:
      return fmt::format("{}: not executable", name);
    default:
      return fmt::format("cannot run {}: {}", name, strerror(l.error));
  }
}

// Held while a command is started: until it is loaded, and so has asked to die with us. Never destroyed: threads
// outlive exit handlers.
std::timed_mutex& starting() {
  static auto& mutex = *new std::timed_mutex;
  return mutex;
}

Launch make_launch(const Inside& inside, const Command& command) {
  Launch l;
  l.paths = find_paths(command);
  l.argv.push_back(nullptr);
  for (const std::string& a : command.argv) l.argv.push_back(const_cast<char*>(a.c_str()));
  l.argv.push_back(nullptr);
  for (const std::string& e : command.environment) l.environment.push_back(const_cast<char*>(e.c_str()));
  l.environment.push_back(nullptr);
  if (!command.directory.empty()) l.directory = command.directory.c_str();
  l.core = command.core;
  l.changed_signals = &changed_signals();
  l.is_orphan_killed = inside.mode == Mode::kSubreaper;
  return l;
}

// A program that left its number in a lock file is not to find a checker of that number alive: after a reboot that is
// as unlikely as it would be common in sandboxes that all count from 1.
void number_next_process(const Inside& inside) {
  if (inside.first_pid == 0 || !inside.has_proc || inside.mode == Mode::kSubreaper) return;
  const Fd file(open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC));
  const std::string last = std::to_string(inside.first_pid - 1);
  if (file) [[maybe_unused]]
    const ssize_t written = write(file.get(), last.data(), last.size());
}

// What a command writes to one of its streams.
class Capture {
 public:
  bool open_pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    in_ = Fd(ends[0]);
    out_ = Fd(ends[1]);
    fcntl(in_.get(), F_SETFL, O_NONBLOCK);
    return true;
  }
  int write_end() const { return out_.get(); }
  void close_write_end() { out_.reset(); }
  int read_end() const { return in_.get(); }

  // One read, into the caller's buffer; false when there is nothing more for now.
  bool read_some(char* buffer, std::size_t keep_bytes, const std::function<void(std::string_view)>& on_bytes) {
    if (!in_) return false;
    const ssize_t size = read(in_.get(), buffer, kReadBytes);
    if (size < 0) return errno == EINTR;
    if (size == 0) {
      in_.reset();
      return false;
    }
    const std::string_view bytes(buffer, static_cast<std::size_t>(size));
    const std::size_t room = keep_bytes - std::min(keep_bytes, text.size());
    text.append(bytes.substr(0, room));
    is_cut |= bytes.size() > room;
    if (on_bytes) on_bytes(bytes);
    return true;
  }

  std::string text;
  bool is_cut = false;

 private:
  Fd in_, out_;
};

class Run {
 public:
  Run(const Inside& inside, const Command& command)
      : inside_(inside), command_(command), launch_(make_launch(inside, command)) {}

  Outcome go() {
    if (!open_streams()) {
      outcome_.why = fmt::format("cannot make a pipe: {}", strerror(errno));
      return std::move(outcome_);
    }
    // Without a keeper, or in the background, the command is left in no terminal rather than stopped at its first read.
    if (command_.with_terminal && borrow_terminal(inside_.keeper))
      terminal_ = Fd(open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
    launch_.terminal = terminal_.get();
    const auto began = Clock::now();
    if (command_.limit) end_ = began + *command_.limit;
    if (spawn()) follow();
    const Killed killed = kill_descendants(inside_.mode, kKillLimit, pid_);
    outcome_.left_running = killed.count;
    outcome_.is_stuck = !killed.is_none_left;
    outcome_.wall = Clock::now() - began;
    if (terminal_) give_back_terminal(inside_.keeper);
    drain();
    outcome_.out = std::move(out_.text);
    outcome_.err = std::move(err_.text);
    outcome_.is_out_cut = out_.is_cut;
    outcome_.is_err_cut = err_.is_cut;
    return std::move(outcome_);
  }

 private:
  bool open_streams() {
    if (command_.stdout_fd == kCapture && !out_.open_pipe()) return false;
    if (command_.stderr_fd == kCapture && !err_.open_pipe()) return false;
    if (out_.read_end() >= 0 || err_.read_end() >= 0) buffer_ = std::make_unique_for_overwrite<char[]>(kReadBytes);
    launch_.fds[0] = command_.stdin_fd;
    launch_.fds[1] = command_.stdout_fd == kCapture ? out_.write_end() : command_.stdout_fd;
    launch_.fds[2] = command_.stderr_fd == kCapture      ? err_.write_end()
                     : command_.stderr_fd == kWithStdout ? launch_.fds[1]
                                                         : command_.stderr_fd;
    return true;
  }

  bool spawn() {
    static thread_local const std::unique_ptr<char[]> stack(new char[kStackBytes]);
#ifdef __SANITIZE_ADDRESS__
    // The previous child left in the middle of its functions: the marks that the sanitizer made for them are stale.
    __asan_unpoison_memory_region(stack.get(), kStackBytes);
#endif
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    number_next_process(inside_);
    int pidfd = -1;
    starting().lock();
    pid_ = clone(become, stack.get() + kStackBytes, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &launch_, &pidfd);
    const int error = errno;
    starting().unlock();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    out_.close_write_end();
    err_.close_write_end();
    if (pid_ < 0) {
      outcome_.why = fmt::format("cannot start a process: {}", strerror(error));
      return false;
    }
    pidfd_ = Fd(pidfd);
    if (launch_.failed_step == nullptr) return true;
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    outcome_.why = explain(launch_, command_);
    return false;
  }

  // Until the command itself has ended and is reaped, or its time is up.
  void follow() {
    while (true) {
      const auto now = Clock::now();
      if (command_.stop != nullptr && *command_.stop) {
        outcome_.end = Outcome::End::kStopped;
        return;
      }
      if (command_.should_stop && command_.should_stop()) {
        outcome_.end = Outcome::End::kStopped;
        if (command_.on_limit) command_.on_limit();
        return;
      }
      if (end_ && now >= *end_) {
        outcome_.end = Outcome::End::kTimedOut;  // go() kills all there is
        if (command_.on_limit) command_.on_limit();
        return;
      }
      const auto pause = end_ ? std::min<std::chrono::nanoseconds>(kTick, *end_ - now) : kTick;
      const timespec timeout{0, std::chrono::nanoseconds(pause).count()};
      pollfd p[3] = {{pidfd_.get(), POLLIN, 0}, {out_.read_end(), POLLIN, 0}, {err_.read_end(), POLLIN, 0}};
      const int ready = ppoll(p, 3, &timeout, nullptr);
      if (p[0].revents != 0 && ready > 0) return read_status();
      if (ready > 0 && p[1].revents != 0) out_.read_some(buffer_.get(), command_.capture_bytes, command_.on_stdout);
      if (ready > 0 && p[2].revents != 0) err_.read_some(buffer_.get(), command_.capture_bytes, {});
      if (ready == 0) tend_children();
    }
  }

  void tend_children() {
    siginfo_t info;
    while (info.si_pid = 0,
           waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0 && info.si_pid != pid_) {
      waitpid(info.si_pid, nullptr, 0);
    }
    info.si_pid = 0;
    if (terminal_ && waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == pid_)
      kill(-pid_, SIGCONT);
  }

  void read_status() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    outcome_.end = WIFSIGNALED(status) ? Outcome::End::kSignalled : Outcome::End::kExited;
    outcome_.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    outcome_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

  // All writers are dead, except perhaps with kSubreaper. So this reads what is there and does not wait for more.
  void drain() {
    while (out_.read_some(buffer_.get(), command_.capture_bytes, command_.on_stdout)) {
    }
    while (err_.read_some(buffer_.get(), command_.capture_bytes, {})) {
    }
  }

  const Inside& inside_;
  const Command& command_;
  Launch launch_;
  Outcome outcome_;
  Capture out_, err_;
  std::unique_ptr<char[]> buffer_;
  Fd terminal_, pidfd_;
  pid_t pid_ = -1;
  std::optional<Clock::time_point> end_;
};

}  // namespace

std::vector<std::string> environment_without(std::initializer_list<std::string_view> beginnings) {
  std::vector<std::string> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (std::none_of(beginnings.begin(), beginnings.end(), [&](std::string_view b) { return text.starts_with(b); }))
      kept.emplace_back(text);
  }
  return kept;
}

void start_no_more(std::chrono::milliseconds limit) { (void)starting().try_lock_for(limit); }

Outcome run(const Inside& inside, const Command& command) {
  if (command.argv.empty()) {
    Outcome outcome;
    outcome.why = "no command was given";
    return outcome;
  }
  return Run(inside, command).go();
}

}  // namespace crashcut::sandbox
