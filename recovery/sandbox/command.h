// Command: one run of a program inside a sandbox, from exec until nothing of it is left.
//
// run() is for the function of a sandbox (PID 1, or the subreaper), on any one of its threads, one command at a time:
//   when it returns, every other process of the sandbox has ended and is reaped, whether the command left it running
//   (in the background, daemonised, in a session of its own) or it was there before. That costs one system call when
//   nothing was left.
// The caller's thread waits in vfork until the program is loaded. A program, interpreter or directory on a mount that
//   this same process serves is fine as long as other threads serve it.
// The command inherits the descriptors 0, 1 and 2 and nothing else: all others are closed before anything that could
//   wait for a filesystem, so that a /dev/fuse of ours is never kept open by a command that hangs in that very mount.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recovery/sandbox/sandbox.h"

namespace crashcut::sandbox {

// In place of a descriptor.
constexpr int kDevNull = -1;
constexpr int kCapture = -2;     // stdout, stderr
constexpr int kWithStdout = -3;  // stderr: where stdout goes

struct Command {
  std::vector<std::string> argv;  // argv[0] is looked for in the environment's PATH, as execvp does
  std::vector<std::string> environment;
  std::string directory;  // empty: the caller's
  int stdin_fd = kDevNull;
  int stdout_fd = kCapture;
  int stderr_fd = kCapture;
  std::size_t capture_bytes = 64 << 10;  // kept of each; the rest is read and dropped
  // Called with what is captured from stdout as it comes, all of it, in the calling thread; may be empty.
  std::function<void(std::string_view)> on_stdout;
  std::optional<std::chrono::nanoseconds> limit;  // wall clock
  std::function<void()> on_limit;                 // called when it is over, before anything is killed; may be empty
  const std::atomic<bool>* stop = nullptr;        // once it is set the command is killed, within a tenth of a second
  std::function<bool()> should_stop;              // the same, asked ten times a second; on_limit() is called then too
  std::optional<int> core;                        // the command runs on this core only
  // The command talks to a person: it is put in the foreground of the sandbox's terminal, so Ctrl-C is the command's;
  // Ctrl-Z does nothing, since there is no shell of the sandbox to come back to. Without it the command has no
  // controlling terminal at all.
  bool with_terminal = false;
};

struct Outcome {
  enum class End { kExited, kSignalled, kTimedOut, kStopped, kNotStarted };
  End end = End::kNotStarted;
  int code = 0;     // kExited
  int signal = 0;   // kSignalled
  std::string why;  // kNotStarted: a sentence
  std::string out, err;
  bool is_out_cut = false, is_err_cut = false;  // more came than was kept
  unsigned left_running = 0;                    // processes that it left and that were killed
  // Something could not be killed within some seconds: the sandbox has to be stopped. Never seen but for a process
  // that waits for a filesystem whose server is stuck.
  bool is_stuck = false;
  std::chrono::nanoseconds wall{};
};

Outcome run(const Inside& inside, const Command& command);

// The environment of this process, without the variables whose names begin so.
std::vector<std::string> environment_without(std::initializer_list<std::string_view> beginnings);

// For a thread that is about to end this process and all it has started: run() starts nothing any more, for good. Waits
// for one that is being started, but not longer than the limit.
void start_no_more(std::chrono::milliseconds limit);

}  // namespace crashcut::sandbox
