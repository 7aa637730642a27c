// Failure points: the moments at which a failure of a machine must be tried, for a schedule that is given.
//
// A machine may fail at any time. Two moments between which nobody took anything from what the failure could leave
//   leave the same states to the others: the later one has all that the earlier one has, since a pending store that is
//   lost might as well not have been executed. So a failure is tried only right before a step that takes something
//   away: a write-back of a line that the machine has dirty, by a flush or a completed fence of its own or by another
//   machine's access. With global persistent flush nothing that is visible is lost, and with poison a loss shows: there
//   each store that becomes visible counts. What tells of a failure counts too, and is the caller's to know: the
//   machine's end, its locks and unlocks, another machine's lock of a mutex that it holds, a wait for it. (Its locks,
//   because the schedule is given: in another one somebody else comes first.)
// Held to the search that tries every moment (tests/cxl_failures_test.cc).
#pragma once

#include "cxl/machines.h"

namespace crashcut::cxl {

struct NextStep {
  enum Kind : std::uint8_t {
    kLoad,     // is executed
    kStore,    // leaves its store buffer, or a locked instruction is executed; the latter is a fence, too
    kClflush,  // leaves
    kFence,    // sfence leaves, mfence is executed
    kNothing,  // of these
  };
  Kind kind = kNothing;
  ThreadId thread = 0;
  Address address = 0;
  bool is_locked = false;
};

inline bool takes_from(MachineId machine, const NextStep& step, const Machines& machines, const SharedMemory& memory) {
  const bool is_own = machines.machine_of(step.thread) == machine;
  const bool has_pending = step.kind != NextStep::kFence && step.kind != NextStep::kNothing &&
                           memory.is_shared(step.address) && memory.has_pending(machine, step.address);
  if (!is_own) return has_pending && step.kind != NextStep::kClflush;
  switch (step.kind) {
    case NextStep::kStore:
      if ((memory.model().has_global_flush || memory.model().has_poison) && memory.is_shared(step.address)) return true;
      return step.is_locked && machines.awaits_write_back(step.thread);
    case NextStep::kClflush:
      return has_pending;
    case NextStep::kFence:
      return machines.awaits_write_back(step.thread);
    default:
      return false;
  }
}

}  // namespace crashcut::cxl
