#include "recovery/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>

#include <initializer_list>

#include "recovery/sandbox/command.h"
#include "recovery/sandbox/descendants.h"
#include "recovery/sandbox/keeper.h"

namespace crashcut::sandbox {
namespace {

constexpr int kLost = 4;  // exit code of a process that found its parent gone
constexpr std::chrono::milliseconds kKillLimit{5000};

// From the processes on the way to a sandbox to the one that wants it. One step that failed, or what is ready.
struct Report {
  char failed_step[64];  // empty: it went well
  int error;
  pid_t pid;  // from the process in the middle
};

void send_report(int fd, const Report& report) {
  [[maybe_unused]] const ssize_t told = write(fd, &report, sizeof report);
}
[[noreturn]] void give_up(int fd, const char* step) {
  Report report{{}, errno, 0};
  snprintf(report.failed_step, sizeof report.failed_step, "%s", step);
  send_report(fd, report);
  _exit(kLost);
}

// What both new processes need from the one that calls start().
struct Birth {
  Mode mode;
  const Options& options;
  const std::function<int(const Inside&)>& function;
  int report;
  int parent;           // pidfd: readable when the parent, all of its threads, is dead
  bool is_main_thread;  // of the parent
  int socket;
  int keeper = -1;        // the sandbox's end
  int keeper_serve = -1;  // the keeper's end
  int terminal = -1;
};

int open_pidfd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

bool is_dead(int pidfd) {
  pollfd p{pidfd, POLLIN, 0};
  return poll(&p, 1, 0) > 0;
}

// A terminal's signals are for the command in it and for our parent, which then ends this process.
void settle_signals() {
  for (const int s : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE}) signal(s, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);  // ignored, children would vanish before they are asked how they ended
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool write_file(const char* path, const std::string& text) {
  const Fd fd(open(path, O_WRONLY | O_CLOEXEC));
  return fd && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool map_user_to_itself(uid_t uid, gid_t gid) {
  // After a change of user, /proc/self is root's.
  prctl(PR_SET_DUMPABLE, 1);
  // setgroups: kernels before 3.19 have no such file and need no such word.
  return (write_file("/proc/self/setgroups", "deny") || errno == ENOENT) &&
         write_file("/proc/self/uid_map", fmt::format("{0} {0} 1", uid)) &&
         write_file("/proc/self/gid_map", fmt::format("{0} {0} 1", gid));
}

// Before 6.14 there was one such limit for the whole system: not ours to change.
bool has_pid_limit_per_namespace() {
  utsname name;
  int major = 0, minor = 0;
  return uname(&name) == 0 && sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
         (major > 6 || (major == 6 && minor >= 14));
}

struct Body {
  const std::function<int(const Inside&)>* function;
  Inside inside;
  int report;
  const std::function<void()>* cleanup;
};

void* run_body(void* argument) {
  const Body& body = *static_cast<Body*>(argument);
  // Not in the first thread: the function may end the process before the first thread gets to it.
  send_report(body.report, Report{});
  close(body.report);
  const int code = (*body.function)(body.inside);
  fflush(nullptr);
  _exit(code);
}

struct Cleaner {
  int parent;
  const std::function<void()>* cleanup;
};

int clean_up(void* argument) {
  const Cleaner& cleaner = *static_cast<Cleaner*>(argument);
  // The copies of what the process has open go first. A thread of it may wait for its own mount, and cannot die before
  // the mount's channel is closed everywhere; and its parent waits for the end of its socket.
  const auto parent = static_cast<unsigned>(cleaner.parent);
  if (parent > 0) close_range(0, parent - 1, 0);
  close_range(parent + 1, ~0U, 0);
  pollfd p{cleaner.parent, POLLIN, 0};
  while (poll(&p, 1, -1) <= 0) {
  }
  (*cleaner.cleanup)();
  _exit(0);
}

// Once this process is dead: until then its other thread may mount.
void clean_up_after(const std::function<void()>& cleanup) {
  const Fd self(open_pidfd(getpid()));
  if (!cleanup || !self) return;
  // No child of this process: commands that end now kill all of those. And a clone, no fork, so it must not allocate.
  alignas(16) static char stack[64 << 10];
  Cleaner cleaner{self.get(), &cleanup};
  clone(clean_up, stack + sizeof stack, CLONE_PARENT | SIGCHLD, &cleaner);
}

// The function gets a thread made by the C library, which knows its right thread id: that of the first thread, after
// a bare clone, is the one of a process long gone. The first thread has the simplest of jobs instead.
[[noreturn]] void run_and_watch(Body& body, int watched) {
  pthread_t thread;
  if ((errno = pthread_create(&thread, nullptr, run_body, &body)) != 0) give_up(body.report, "start a thread");
  pollfd p{watched, POLLIN, 0};
  while (poll(&p, 1, -1) <= 0) {
  }
  if (body.inside.mode == Mode::kSubreaper) {
    // A process that the other thread starts after the last look would be missed.
    start_no_more(kKillLimit);
    kill_descendants(body.inside.mode, kKillLimit);
    clean_up_after(*body.cleanup);
  }
  _exit(kLost);
}

// PID 1 of the new namespaces.
[[noreturn]] void be_init(const Birth& birth, uid_t uid, gid_t gid) {
  // The kernel's own means where it is right: it also fires when only the thread that made us ends, and the main
  // thread does not end. The first thread watches in any case.
  if (birth.is_main_thread) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (is_dead(birth.parent)) _exit(kLost);
  settle_signals();
  if (birth.mode == Mode::kUserNamespaces && !map_user_to_itself(uid, gid))
    give_up(birth.report, "map the user into a namespace");
  if (unshare(CLONE_NEWNS) != 0) give_up(birth.report, "make a mount namespace");
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) give_up(birth.report, "make mounts private");
  Body body{&birth.function,
            {birth.mode, birth.socket, birth.keeper, false, birth.options.first_pid},
            birth.report,
            &birth.options.cleanup};
  // Refused where parts of the outer /proc are hidden, as in most containers.
  body.inside.has_proc = mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
  if (body.inside.has_proc && birth.options.max_processes > 0 && has_pid_limit_per_namespace()) {
    write_file("/proc/sys/kernel/pid_max", std::to_string(birth.options.max_processes));
  }
  run_and_watch(body, birth.parent);
}

// The same without namespaces. It watches its supervisor; the supervisor watches our parent.
[[noreturn]] void be_subreaper(const Birth& birth, int supervisor) {
  if (is_dead(supervisor)) _exit(kLost);
  settle_signals();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  Body body{&birth.function, {birth.mode, birth.socket, birth.keeper, true}, birth.report, &birth.options.cleanup};
  run_and_watch(body, supervisor);
}

int to_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

// Stays until the sandbox process has ended, one way or another, and leaves nothing behind.
[[noreturn]] void supervise(const Birth& birth, pid_t sandbox, int signals) {
  Keeper keeper(birth.terminal, birth.keeper_serve);
  int status = kLost << 8;
  while (true) {
    pollfd p[3] = {{birth.parent, POLLIN, 0}, {signals, POLLIN, 0}, {keeper.fd(), POLLIN, 0}};
    if (poll(p, 3, -1) < 0) continue;
    if (p[2].revents != 0) keeper.serve();
    if (p[0].revents != 0) break;
    signalfd_siginfo info;
    if (p[1].revents != 0 && read(signals, &info, sizeof info) == sizeof info && info.ssi_signo == SIGTERM) break;
    // Children of a sandbox that has died may come here before it is seen.
    if (waitpid(sandbox, &status, WNOHANG) == sandbox) break;
  }
  // The sandbox process first: as long as it lives it may start more.
  kill(sandbox, SIGKILL);
  kill_descendants(Mode::kSubreaper, kKillLimit);
  keeper.take_back();
  if (birth.options.cleanup) birth.options.cleanup();
  _exit(to_code(status));
}

[[noreturn]] void be_supervisor(const Birth& birth) {
  settle_signals();
  signal(SIGTERM, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const Fd signals(signalfd(-1, &set, SFD_CLOEXEC));
  const Fd self(open_pidfd(getpid()));
  if (!signals || !self) give_up(birth.report, "watch processes");
  const pid_t pid = fork();
  if (pid < 0) give_up(birth.report, "start a process");
  if (pid == 0) {
    if (birth.keeper_serve >= 0) close(birth.keeper_serve);
    be_subreaper(birth, self.get());
  }
  send_report(birth.report, Report{{}, 0, pid});
  close(birth.report);
  close(birth.socket);
  if (birth.keeper >= 0) close(birth.keeper);
  supervise(birth, pid, signals.get());
}

std::uint64_t number_of_namespace(const char* path) {
  struct stat found;
  return stat(path, &found) == 0 ? found.st_ino : 0;
}

// The kernel gives a new namespace, of any kind, the lowest number that is free. Takes all that are free below `number`
// for as long as this process lives, so that the next namespace gets it.
void make_next_namespace(std::uint64_t number) {
  constexpr int kTriesMost = 500;
  const char* const own = "/proc/self/ns/uts";
  const int original = open(own, O_RDONLY | O_CLOEXEC);
  if (original < 0) return;
  for (int tries = 0; tries < kTriesMost && unshare(CLONE_NEWUTS) == 0; ++tries) {
    const std::uint64_t got = number_of_namespace(own);
    if (got >= number)
      break;  // the one that is wanted, which is free again once we have left it, or none below is free
    (void)open(own, O_RDONLY | O_CLOEXEC);
  }
  setns(original, CLONE_NEWUTS);
}

// Between the caller and PID 1. The C library's fork made it, so that locks of other threads are no trouble; from
// here a bare clone is safe, and CLONE_PARENT makes PID 1 the caller's own child.
[[noreturn]] void be_middle(const Birth& birth) {
  if (birth.mode == Mode::kSubreaper) be_supervisor(birth);
  settle_signals();
  if (birth.options.pid_namespace != 0) make_next_namespace(birth.options.pid_namespace);
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  const long user = birth.mode == Mode::kUserNamespaces ? CLONE_NEWUSER : 0;
  const long pid = syscall(SYS_clone, CLONE_NEWPID | user | CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, 0L);
  if (pid < 0) give_up(birth.report, "make namespaces");
  if (pid == 0) {
    if (birth.keeper_serve >= 0) close(birth.keeper_serve);
    be_init(birth, uid, gid);
  }
  send_report(birth.report, Report{{}, 0, static_cast<pid_t>(pid)});
  if (birth.keeper_serve < 0) _exit(0);
  // Nothing of the sandbox may hang on this process: it keeps the terminal and no more.
  close(birth.report);
  close(birth.socket);
  close(birth.keeper);
  Keeper keeper(birth.terminal, birth.keeper_serve);
  while (keeper.serve()) {
  }
  keeper.take_back();
  _exit(0);
}

void reap(pid_t pid, int& status) {
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
}

// fork() with no signal of ours handled in the child before it has settled its own.
pid_t fork_quietly() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  const int error = errno;
  if (pid != 0) pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

std::string explain(const char* step, int error) {
  std::string sentence = fmt::format("cannot {}: {}", step, strerror(error));
  if (error == EPERM || error == EACCES) sentence += " (not root, or inside a container without that right)";
  if (error == ENOSPC) sentence += " (user namespaces are switched off or used up: /proc/sys/user/max_user_namespaces)";
  return sentence;
}

tl::unexpected<std::string> fail(const char* step) { return tl::make_unexpected(explain(step, errno)); }

}  // namespace

tl::expected<Sandbox, std::string> Sandbox::start_in(Mode mode, const std::function<int(const Inside&)>& function,
                                                     const Options& options) {
  int ends[2], keepers[2] = {-1, -1}, reports[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return fail("make a socket");
  Sandbox sandbox;
  sandbox.mode_ = mode;
  sandbox.socket_ = Fd(ends[0]);
  Fd theirs(ends[1]);
  if (pipe2(reports, O_CLOEXEC) != 0) return fail("make a pipe");
  const Fd report_in(reports[0]);
  Fd report_out(reports[1]);
  const Fd self(open_pidfd(getpid()));
  if (!self) return fail("watch a process");
  if (options.with_terminal) sandbox.terminal_ = Fd(open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (sandbox.terminal_ && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, keepers) != 0)
    return fail("make a socket");
  Fd keeper(keepers[0]), keeper_serve(keepers[1]);

  const Birth birth{
      mode,         options,      function,           report_out.get(),       self.get(), gettid() == getpid(),
      theirs.get(), keeper.get(), keeper_serve.get(), sandbox.terminal_.get()};
  fflush(nullptr);  // what is buffered is printed once
  const pid_t middle = fork_quietly();
  if (middle < 0) return fail("start a process");
  if (middle == 0) {
    close(ends[0]);
    close(reports[0]);
    be_middle(birth);
  }
  report_out.reset();
  theirs.reset();
  keeper.reset();
  keeper_serve.reset();

  // One report of the process in the middle and one of the sandbox, in any order.
  Report report{};
  bool is_ready = false;
  std::string failure;
  pid_t inner = -1;
  while (failure.empty() && !(is_ready && inner > 0)) {
    const ssize_t size = read(report_in.get(), &report, sizeof report);
    if (size < 0 && errno == EINTR) continue;
    if (size != sizeof report) {
      failure = "a new sandbox was killed";
    } else if (report.failed_step[0] != '\0') {
      failure = explain(report.failed_step, report.error);
    } else if (report.pid > 0) {
      inner = report.pid;
    } else {
      is_ready = true;
    }
  }
  const bool is_ours = mode != Mode::kSubreaper;
  sandbox.pid_ = is_ours ? inner : middle;
  sandbox.cleanup_ = birth.options.cleanup;
  int status;
  if (is_ours && (!birth.options.with_terminal || !sandbox.terminal_)) {
    reap(middle, status);
  } else if (is_ours) {
    sandbox.keeper_ = middle;
  }
  if (!failure.empty()) return tl::make_unexpected(failure);  // ~Sandbox ends what there is
  return sandbox;
}

tl::expected<Sandbox, std::string> Sandbox::start(std::function<int(const Inside&)> function, Options options) {
  if (options.mode) return start_in(*options.mode, function, options);
  std::string why;
  for (const Mode mode : {Mode::kNamespaces, Mode::kUserNamespaces}) {
    auto sandbox = start_in(mode, function, options);
    // Another process may have taken the number that is wanted; most namespaces do not live long.
    constexpr int kTriesMost = 20;
    const bool is_picky = mode == Mode::kNamespaces && options.pid_namespace != 0;
    for (int tries = 1; is_picky && sandbox && sandbox->pid_namespace() != options.pid_namespace && tries < kTriesMost;
         ++tries) {
      *sandbox = Sandbox();
      usleep(50'000);
      sandbox = start_in(mode, function, options);
    }
    if (sandbox) return sandbox;
    why = sandbox.error();
  }
  auto sandbox = start_in(Mode::kSubreaper, function, options);
  if (sandbox) sandbox->why_weak_ = why;
  return sandbox;
}

Sandbox::Sandbox(Sandbox&& other) noexcept
    : mode_(other.mode_),
      why_weak_(std::move(other.why_weak_)),
      cleanup_(std::move(other.cleanup_)),
      socket_(std::move(other.socket_)),
      terminal_(std::move(other.terminal_)),
      pid_(std::exchange(other.pid_, -1)),
      keeper_(std::exchange(other.keeper_, -1)),
      status_(other.status_) {}

Sandbox& Sandbox::operator=(Sandbox&& other) noexcept {
  std::swap(mode_, other.mode_);
  std::swap(why_weak_, other.why_weak_);
  std::swap(cleanup_, other.cleanup_);
  std::swap(socket_, other.socket_);
  std::swap(terminal_, other.terminal_);
  std::swap(pid_, other.pid_);
  std::swap(keeper_, other.keeper_);
  std::swap(status_, other.status_);
  return *this;
}

Sandbox::~Sandbox() {
  stop();
  wait();
}

void Sandbox::stop() {
  // Not reaped yet, so the number is still that of our child.
  if (pid_ > 0) kill(pid_, mode_ == Mode::kSubreaper ? SIGTERM : SIGKILL);
}

int Sandbox::wait() {
  // The kernel lets PID 1 be reaped only when all of its namespace is gone.
  if (pid_ > 0) {
    reap(std::exchange(pid_, -1), status_);
    // The supervisor did, unless it was killed.
    if (mode_ == Mode::kSubreaper && cleanup_) cleanup_();
  }
  if (keeper_ > 0) {
    int status = 0;
    reap(std::exchange(keeper_, -1), status);
    if (WIFSIGNALED(status)) take_back_from_the_dead(terminal_.get());
  }
  return to_code(status_);
}

std::uint64_t Sandbox::pid_namespace() const {
  return number_of_namespace(fmt::format("/proc/{}/ns/pid", pid_).c_str());
}

Permitted probe() {
  const auto sandbox = Sandbox::start([](const Inside&) { return 0; });
  if (!sandbox) return {Mode::kSubreaper, sandbox.error()};
  return {sandbox->mode(), sandbox->why_weak()};
}

}  // namespace crashcut::sandbox
