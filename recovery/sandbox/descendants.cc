#include "recovery/sandbox/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace crashcut::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

// The parent of a process, from /proc/PID/stat; 0 when it is gone.
pid_t parent_of(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
  char text[512];
  const ssize_t size = fd ? read(fd.get(), text, sizeof text - 1) : -1;
  if (size <= 0) return 0;
  text[size] = '\0';
  // The name in parentheses may hold anything, parentheses too: the last one ends it.
  const char* end = strrchr(text, ')');
  int parent = 0;
  return end != nullptr && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

std::vector<pid_t> list_descendants() {
  std::multimap<pid_t, pid_t> children;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return {};
  while (const dirent* entry = readdir(proc)) {
    if (const pid_t pid = atoi(entry->d_name); pid > 0) children.emplace(parent_of(pid), pid);
  }
  closedir(proc);
  std::vector<pid_t> found{getpid()};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [from, to] = children.equal_range(found[i]);
    for (auto it = from; it != to; ++it) found.push_back(it->second);
  }
  found.erase(found.begin());
  return found;
}

// All are stopped before any is killed: a process that forks faster than we kill would else stay ahead for ever.
void kill_through_proc() {
  std::set<pid_t> stopped;
  for (bool is_new = true; is_new;) {
    is_new = false;
    for (const pid_t pid : list_descendants()) {
      if (!stopped.insert(pid).second) continue;
      is_new = true;
      kill(pid, SIGSTOP);
    }
  }
  for (const pid_t pid : list_descendants()) kill(pid, SIGKILL);
}

void kill_all(Mode mode) {
  if (mode == Mode::kSubreaper) {
    kill_through_proc();
  } else {
    // In one step for the kernel: no process of the namespace can fork past it. Never PID 1 itself.
    kill(-1, SIGKILL);
  }
}

}  // namespace

Killed kill_descendants(Mode mode, std::chrono::milliseconds limit, pid_t known) {
  Killed killed;
  bool has_killed = false;
  Clock::time_point end;
  long pause_us = 20;
  while (true) {
    const pid_t pid = waitpid(-1, nullptr, WNOHANG | __WALL);
    if (pid > 0) {
      killed.count += has_killed && pid != known ? 1 : 0;
    } else if (pid < 0 && errno == ECHILD) {
      killed.is_none_left = true;
      return killed;
    } else if (pid == 0) {
      if (!has_killed) end = Clock::now() + limit;
      if (has_killed && Clock::now() >= end) return killed;
      has_killed = true;
      kill_all(mode);
      const timespec pause{0, pause_us * 1000};
      nanosleep(&pause, nullptr);
      pause_us = std::min(pause_us * 2, 5000L);
    }
  }
}

}  // namespace crashcut::sandbox
