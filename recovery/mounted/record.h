// Record: one run of an unmodified program on the mounted filesystem, into a trace.
//
// Everything happens in a sandbox: the mount, the set-up, the program and whatever it starts. The trace is written as
//   it goes, so what was recorded is there whatever is killed.
#pragma once

#include <string>

#include <tl/expected.hpp>

#include "recovery/mounted/plan.h"
#include "recovery/sandbox/sandbox.h"

namespace crashcut::mounted {

struct Recorded {
  bool exited = false;  // it ended by itself; else by a signal, or it was stopped
  int code = 0;
  int signal = 0;
  bool timed_out = false;
  unsigned left_running = 0;  // processes that it left and that were killed
  bool used_io_uring = false;
  std::uint64_t requests = 0;
  double seconds = 0;
  std::string weak_sandbox;  // why the sandbox is best effort only, where it is
};

// Of a sandbox that mounts at disk_of(directory), which exists: nothing stays mounted, whatever is killed.
sandbox::Options options_for_disk(const std::string& directory, bool with_terminal = false);

// Blocks until the program has ended. `with_terminal`: it talks to a person.
tl::expected<Recorded, Failure> record(const RecordPlan& plan, bool with_terminal);

}  // namespace crashcut::mounted
