// Descendants: what a process has started, directly or not, as far as it comes back to it when its parent dies.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "recovery/sandbox/sandbox.h"

namespace crashcut::sandbox {

struct Killed {
  unsigned count = 0;         // processes that were still running, `known` not among them
  bool is_none_left = false;  // false: the limit was reached; something does not die, or is not ours to kill
};

// Reaps the children of this process that have ended, then kills and reaps everything that has not. Costs one system
// call when there is nothing. The caller is PID 1 of a PID namespace or, with kSubreaper, a subreaper.
Killed kill_descendants(Mode mode, std::chrono::milliseconds limit, pid_t known = 0);

}  // namespace crashcut::sandbox
