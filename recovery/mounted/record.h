// Record: one run of an unmodified program on the mounted filesystem, into a trace.
//
// Everything happens in a sandbox: the mount, the set-up, the program and whatever it starts. The trace is written as
//   it goes, so what was recorded is there whatever is killed.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "fusefs/trace.h"
#include "recovery/mounted/plan.h"
#include "recovery/sandbox/sandbox.h"

namespace crashcut::mounted {

struct Recorded {
  bool exited = false;  // it ended by itself; else by a signal, or it was stopped
  int code = 0;
  int signal = 0;
  bool timed_out = false;
  bool out_of_memory = false;  // it was stopped, as it or its recording took too much
  std::string why_stopped;     // out_of_memory: a clause
  bool was_cut = false;        // later, when it was read: the program ran on, and the rest of it is not explored
  unsigned left_running = 0;   // processes that it left and that were killed
  bool used_io_uring = false;
  std::uint64_t requests = 0;
  double seconds = 0;
  std::string weak_sandbox;              // why the sandbox is best effort only, where it is
  std::vector<std::string> not_on_disk;  // of RecordPlan::named_here, when the program started
};

// How files come onto the disk, and which of these were not there.
std::string not_on_disk_text(const std::vector<std::string>& names);
// Whether the program did anything to the disk.
bool has_changed_something(const std::string& directory);

// Of a sandbox that mounts at disk_of(directory), which exists: nothing stays mounted, whatever is killed.
sandbox::Options options_for_disk(const std::string& directory, bool with_terminal = false);
// The same for checkers. None of their processes has the number of one of the program's: a lock file of the program
// names a process that is gone. `pid_namespace`: as stored_pid_namespace() says.
sandbox::Options options_for_checkers(const std::string& directory, std::uint64_t pid_namespace,
                                      bool with_terminal = false);

// The program's process namespace, where the program wrote its number to the disk; else 0. A checker that compares the
// two, as Mercurial does of its locks, must find itself on the same machine.
std::uint64_t stored_pid_namespace(const fusefs::TraceReader& trace);

// Blocks until the program has ended. `with_terminal`: it talks to a person.
tl::expected<Recorded, Failure> record(const RecordPlan& plan, bool with_terminal);

}  // namespace crashcut::mounted
