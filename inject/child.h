// Child: a process that a fork server forks from its warm image, from the fork to how it ended.
//
// Who is who: the server forks, waits, and says how the child ended. The child runs the program. The watchdog is a part
//   of the command: it kills a child that has run for too long, or that nobody needs any more.
// All three share a ChildState, which lies in shared memory.
// Invariant: `killed` is set before SIGKILL is sent, so the server knows why the child died.
#pragma once

#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdint>

namespace crashcut::inject {

enum Killed : std::uint32_t {
  kNotKilled,
  kKilled,         // by the watchdog: it ran for too long
  kNotToBeKilled,  // it is recording what it did, or branching: killing it would lose count of its work
  kAbandoned,      // by the watchdog: the search was stopped and would have had to wait for it
  kByItself,       // the program sends itself SIGKILL
};

struct ChildState {
  std::atomic<std::int32_t> pid;          // 0: there is no process
  std::atomic<std::uint64_t> began_ns;    // CLOCK_MONOTONIC, when it began what it does; 0: no limit holds
  std::atomic<std::uint32_t> killed;      // Killed
  std::atomic<std::uint32_t> in_runtime;  // crashcut's own code is running: a death now is a tool failure
};

enum class ChildEnd : std::uint32_t {
  kNone,  // it has not ended
  kExited,
  kSignalled,      // the program's own doing
  kTooLate,        // the watchdog killed it
  kAbandoned,      // the watchdog killed it since the search was stopped
  kDiedInRuntime,  // a signal in crashcut's own code
  kKilledFromOutside,
};

// `status` is that of wait().
inline ChildEnd end_of(const ChildState& child, int status) {
  if (!WIFSIGNALED(status)) return ChildEnd::kExited;
  if (child.killed == kAbandoned) return ChildEnd::kAbandoned;
  if (child.killed == kKilled) return ChildEnd::kTooLate;
  if (child.in_runtime != 0) return ChildEnd::kDiedInRuntime;
  if (WTERMSIG(status) == SIGKILL && child.killed != kByItself) return ChildEnd::kKilledFromOutside;
  return ChildEnd::kSignalled;
}

// --- for the watchdog
inline bool is_late(std::uint64_t began_ns, std::uint64_t now_ns, std::uint64_t limit_ns) {
  return began_ns != 0 && now_ns >= began_ns && now_ns - began_ns >= limit_ns;
}
// Kills the child that began at that time, unless it has done what it was to do or has begun something else meanwhile.
inline void kill_child(ChildState& child, Killed why, std::uint64_t began_ns = 0) {
  const std::int32_t pid = child.pid;
  std::uint32_t before = kNotKilled;
  if (pid <= 0 || (!child.killed.compare_exchange_strong(before, why) && before != why)) return;
  if (child.began_ns != began_ns) {
    child.killed = kNotKilled;
  } else {
    kill(pid, SIGKILL);
  }
}

// --- for the server: process.cc
// Forks. Returns the child's process id, 0 in the child, below 0 if the system refuses. The child ends with its parent,
// whose id is `own_pid`. `has_own_thread_id`: libc in the child gets to know the id of its main thread.
long fork_child(ChildState& child, long own_pid, bool has_own_thread_id);
// Waits until the child has ended. Returns the status of wait(), and the processor time that the child used.
int wait_for_child(ChildState& child, long pid, std::uint64_t* cpu_ns = nullptr);

}  // namespace crashcut::inject
