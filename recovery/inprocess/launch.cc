#include "recovery/inprocess/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject/environment.h"
#include "recovery/inprocess/apart.h"
#include "recovery/inprocess/fresh_stack.h"

namespace crashcut::inprocess {

namespace {

using sandbox::Fd;

tl::unexpected<Failure> fail_errno(const char* what) {
  return tl::make_unexpected(Failure{Blame::kTool, fmt::format("{}: {}", what, strerror(errno))});
}

// An empty directory that nobody else can see: the program's real working directory.
int open_nowhere() {
  const int number = open("/dev/null", O_RDONLY | O_CLOEXEC);  // holds the place in the table of descriptors
  if (number < 0) return -1;
  const int error = run_apart([number] {
    const char* parent = getenv("TMPDIR");
    std::string name = fmt::format("{}/crashcut-XXXXXX", parent != nullptr && *parent != 0 ? parent : "/tmp");
    if (mkdtemp(name.data()) == nullptr) return errno;
    const int fd = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool opened = fd >= 0 && dup3(fd, number, O_CLOEXEC) >= 0;
    const int why = opened ? 0 : errno;
    close(fd);
    rmdir(name.c_str());
    return why;
  });
  if (error == 0) return number;
  close(number);
  errno = error > 0 ? error : EAGAIN;
  return -1;
}

struct Launch {
  std::string program;
  std::vector<char*> argv;
  std::vector<char*> envp;
  int control;
  int socket;
  int directory;
  int stdin_fd, stdout_fd, stderr_fd;
  int threads_control, threads_names;
  bool has_fixed_addresses;
  pid_t parent;
};

// What the child says instead of an errno where it goes on, but may not be traced.
constexpr int kUntraced = -1;

// In the child, between fork and exec: async-signal-safe calls only.
[[noreturn]] void become(const Launch& launch, int error_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launch.parent) _exit(4);
  setsid();  // Ctrl-C is the command's
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(s, SIG_DFL);
  const int in = launch.stdin_fd >= 0 ? launch.stdin_fd : open("/dev/null", O_RDONLY);
  if (in != 0) dup2(in, 0);
  if (in > 2 && launch.stdin_fd < 0) close(in);
  if (launch.stdout_fd >= 0 && launch.stdout_fd != 1) dup2(launch.stdout_fd, 1);
  if (launch.stderr_fd >= 0 && launch.stderr_fd != 2) dup2(launch.stderr_fd, 2);
  // What the user's shell has open would take numbers away from what the program opens.
  if (launch.threads_control >= 0) close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
  fcntl(launch.control, F_SETFD, 0);
  fcntl(launch.socket, F_SETFD, 0);
  if (launch.threads_control >= 0) {
    fcntl(launch.threads_control, F_SETFD, 0);
    fcntl(launch.threads_names, F_SETFD, 0);
  }
  if (launch.has_fixed_addresses) {
    personality(ADDR_NO_RANDOMIZE);
    if (!ask_to_be_traced()) [[maybe_unused]]
      const ssize_t told = write(error_fd, &kUntraced, sizeof kUntraced);
  }
  if (fchdir(launch.directory) == 0) execve(launch.program.c_str(), launch.argv.data(), launch.envp.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(error_fd, &error, sizeof error);
  _exit(4);
}

}  // namespace

tl::expected<Launched, Failure> launch(const Session::Setup& setup, int control_fd) {
  int ends[2];
  int errors[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return fail_errno("cannot make a socket");
  Fd socket(ends[0]);
  const Fd theirs(ends[1]);
  if (pipe2(errors, O_CLOEXEC) != 0) return fail_errno("cannot make a pipe");
  const Fd error_in(errors[0]);
  Fd error_out(errors[1]);
  const Fd nowhere(open_nowhere());
  if (nowhere.get() < 0) return fail_errno("cannot make a temporary directory");

  std::string preload = fmt::format("LD_PRELOAD={}", setup.runtime);
  if (const char* old = getenv("LD_PRELOAD"); old != nullptr && *old != 0) preload += fmt::format(":{}", old);
  // Always of one length: the stack lies below, and objects on it must be at the same place in all of a search's
  // programs.
  std::string channel = fmt::format("{}={:08},{:08}", inject::kControlVariable, control_fd, theirs.get());
  std::string working = fmt::format("PWD={}", kModelRoot);
  // Addresses name objects of threads, and are among what is stored to persistent memory.
  const bool has_fixed_addresses = setup.threads_control_fd >= 0 || setup.memory;
  Launch l{setup.program,
           {},
           {},
           control_fd,
           theirs.get(),
           nowhere.get(),
           setup.stdin_fd,
           setup.stdout_fd,
           setup.stderr_fd,
           setup.threads_control_fd,
           setup.threads_names_fd,
           has_fixed_addresses,
           getpid()};
  l.argv.push_back(l.program.data());
  for (const std::string& a : setup.arguments) l.argv.push_back(const_cast<char*>(a.c_str()));
  l.argv.push_back(nullptr);
  for (char** e = environ; *e != nullptr; ++e) {
    const auto is = [&](std::string_view name) { return std::string_view(*e).starts_with(name); };
    if (!is("LD_PRELOAD=") && !is("PWD=") && !is("OLDPWD=") && !is("ASAN_OPTIONS=")) l.envp.push_back(*e);
  }
  std::string bind_now = "LD_BIND_NOW=1";
  std::string bind_mark = fmt::format("{}=1", inject::kBindNowMark);
  // A program built with -fsanitize=address wants its library first in the list, where ours is, and forks to look for
  // leaks.
  std::string sanitizer = "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0";
  if (const char* own = getenv("ASAN_OPTIONS"); own != nullptr) sanitizer += fmt::format(":{}", own);
  for (std::string* e : {&preload, &channel, &working, &sanitizer}) l.envp.push_back(e->data());
  std::string callbacks = fmt::format("{}=1", inject::kCallbacksVariable);
  if (setup.traps) l.envp.push_back(callbacks.data());
  std::string threads =
      fmt::format("{}={:08},{:08}", inject::kThreadsVariable, setup.threads_control_fd, setup.threads_names_fd);
  if (setup.threads_control_fd >= 0) l.envp.push_back(threads.data());
  std::string host = fmt::format("{}={:02}", inject::kHostVariable, setup.threads_host);
  if (setup.threads_host >= 0) l.envp.push_back(host.data());
  if (getenv("LD_BIND_NOW") == nullptr) {
    for (std::string* e : {&bind_now, &bind_mark}) l.envp.push_back(e->data());
  }
  std::vector<std::string> padding;
  if (has_fixed_addresses) padding = stack_padding(l.program, l.argv, l.envp);
  for (std::string& e : padding) l.envp.push_back(e.data());
  l.envp.push_back(nullptr);

  const pid_t pid = fork();
  if (pid < 0) return fail_errno("cannot start a process");
  if (pid == 0) become(l, error_out.get());
  error_out.reset();
  int error = 0;
  bool is_traced = has_fixed_addresses;
  bool is_told = read(error_in.get(), &error, sizeof error) == sizeof error;
  if (is_told && error == kUntraced) {
    is_traced = false;
    is_told = read(error_in.get(), &error, sizeof error) == sizeof error;
  }
  if (is_traced && !is_told && !fix_fresh_stack(pid)) {
    return tl::make_unexpected(Failure{Blame::kTool, fmt::format("{} was killed as it began", setup.program)});
  }
  if (is_told) {
    waitpid(pid, nullptr, 0);
    return tl::make_unexpected(Failure{Blame::kUser, fmt::format("cannot run {}: {}", setup.program, strerror(error))});
  }
  return Launched{pid, std::move(socket)};
}

}  // namespace crashcut::inprocess
