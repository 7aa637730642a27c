#include "cli/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;

// A compiler that was told to end may still make a file while its directory is being removed.
constexpr int kTriesMost = 500;
constexpr std::chrono::milliseconds kBetweenTries{10};

// The guard keeps no file of crashcut open: the reader of its output must see the output end.
void keep_only(int fd) {
  if (fd > 0) close_range(0, static_cast<unsigned>(fd) - 1, 0);
  close_range(static_cast<unsigned>(fd) + 1, ~0U, 0);
}

void wait_for_end(int pipe) {
  char nothing;
  while (read(pipe, &nothing, 1) < 0 && errno == EINTR) {
  }
}

// All signals are blocked.
[[noreturn]] void guard(const std::string& directory, int pipe) {
  setpgid(0, 0);
  keep_only(pipe);
  [[maybe_unused]] const int moved = chdir("/");
  wait_for_end(pipe);
  kill(0, SIGTERM);
  boost::system::error_code error;
  for (int i = 0; i < kTriesMost; ++i) {
    fs::remove_all(directory, error);
    if (!fs::exists(directory, error)) break;
    std::this_thread::sleep_for(kBetweenTries);
  }
  kill(0, SIGKILL);  // processes that ignored the first signal, and the guard itself
  _exit(0);
}

}  // namespace

Guard::Guard(const std::string& directory) : directory_(directory) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t child = fork();
  if (child == 0) guard(directory, ends[0]);
  const int error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(ends[0]);
  if (child < 0) {
    close(ends[1]);
    throw std::system_error(error, std::generic_category(), "fork");
  }
  setpgid(child, child);  // the guard does it too: either may be first
  process_ = child;
  pipe_ = ends[1];
}

Guard::~Guard() {
  finish();
  boost::system::error_code error;
  fs::remove_all(directory_, error);
}

void Guard::finish() {
  const int pipe = pipe_.exchange(-1);
  if (pipe < 0) return;
  close(pipe);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace crashcut::cli
