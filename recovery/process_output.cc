#include "recovery/process_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace crashcut {

std::string output_of(const std::vector<std::string>& command, const std::function<bool()>& is_late) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  char part[4096];
  constexpr int kTick_ms = 50;
  while (error == 0) {
    pollfd output{ends[0], POLLIN, 0};
    const int ready = poll(&output, 1, is_late ? kTick_ms : -1);
    if (ready == 0 && is_late()) {
      kill(-child, SIGKILL);  // with whatever it has started
      break;
    }
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t got = read(ends[0], part, sizeof part);
    if (got <= 0) break;
    text.append(part, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  if (error == 0) waitpid(child, nullptr, 0);
  return text;
}

}  // namespace crashcut
