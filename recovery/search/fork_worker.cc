#include "recovery/search/fork_worker.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace crashcut::search {
namespace {

class Child final : public SocketWorker {
 public:
  Child(pid_t pid, int socket) : pid_(pid), socket_(socket) {}
  Child(const Child&) = delete;
  ~Child() override {
    close(socket_);
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  int socket() const override { return socket_; }

 private:
  pid_t pid_;
  int socket_;
};

tl::unexpected<Failure> failed(const char* what) {
  return result::tool_failed(std::string("A worker cannot be started: ") + what + ": " + std::strerror(errno) + ".");
}

}  // namespace

tl::expected<std::unique_ptr<SocketWorker>, Failure> fork_worker(const std::function<void(int)>& work) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return failed("socketpair");
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    close(ends[0]);
    close(ends[1]);
    return failed("fork");
  }
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    // The pool hears of Ctrl-C, and says what is to be done.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
    close(ends[0]);
    work(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  return std::make_unique<Child>(pid, ends[0]);
}

}  // namespace crashcut::search
