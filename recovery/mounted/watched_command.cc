#include "recovery/mounted/watched_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <future>

namespace crashcut::mounted {

tl::expected<std::unique_ptr<WatchedCommand>, std::string> WatchedCommand::start(const std::vector<std::string>& argv,
                                                                                 const std::string& directory,
                                                                                 sandbox::SyscallHandlers handlers) {
  std::unique_ptr<WatchedCommand> command(new WatchedCommand());
  std::promise<std::string> started;
  // A filter is for life, and everything that a filtered thread starts has it: a thread of its own keeps it from the
  // mount.
  command->thread_ = std::thread([&started, &argv, &directory, &handlers, self = command.get()] {
    const std::string failure = self->start_and_watch(argv, directory, std::move(handlers));
    started.set_value(failure);
    if (failure.empty()) self->await();
  });
  std::string failure = started.get_future().get();
  if (!failure.empty()) return tl::unexpected(std::move(failure));
  return command;
}

std::string WatchedCommand::start_and_watch(const std::vector<std::string>& argv, const std::string& directory,
                                            sandbox::SyscallHandlers handlers) {
  auto watch = sandbox::SyscallWatch::start(std::move(handlers));
  if (!watch) return watch.error();
  watch_ = std::move(*watch);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  // fusermount3 unmounts when the last copy of its socket is closed, and libfuse leaves the socket open to children:
  // with a copy in the command, a mount whose server is killed would be there, dead, for as long as the command runs.
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawnp(&pid_, words[0], &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return "";
  pid_ = -1;
  return fmt::format("{} could not be run: {}.", argv[0], std::strerror(error));
}

void WatchedCommand::await() {
  siginfo_t info{};
  // It is reaped later: until then the number is its own.
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  exit_code_ = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  has_ended_ = true;
}

WatchedCommand::~WatchedCommand() {
  using namespace std::chrono_literals;
  if (pid_ > 0 && !has_ended_) {
    kill(pid_, SIGHUP);
    kill(pid_, SIGCONT);
    for (int tries = 0; tries < 100 && !has_ended_; ++tries) std::this_thread::sleep_for(20ms);
    if (!has_ended_) kill(pid_, SIGKILL);
  }
  if (thread_.joinable()) thread_.join();
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

}  // namespace crashcut::mounted
