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
// Of memory that no hardware keeps coherent (cxl/incoherent_memory.h), only what the machine itself writes to the
// device
//   takes something: a flush of a dirty line, a non-temporal store.
// A region that goes away with its home (cxl/shared_memory.h) takes something from every access that would follow: each
//   access of it that is executed counts for the home.
// Held to the search that tries every moment (tests/cxl_failures_test.cc).
#pragma once

#include <optional>

#include "cxl/machines.h"

namespace crashcut::cxl {

struct NextStep {
  enum Kind : std::uint8_t {
    kLoad,     // is executed
    kStore,    // leaves its store buffer, or a locked instruction is executed; the latter is a fence, too
    kClflush,  // leaves
    kFence,    // sfence leaves, mfence is executed
    kTouch,    // a store or flush is executed, and does not leave yet
    kNothing,  // of these
  };
  Kind kind = kNothing;
  ThreadId thread = 0;
  Address address = 0;
  bool is_locked = false;
  bool is_weak = false;  // of kStore: a non-temporal one
};

// Whether the step takes something from what a failure of its own machine could leave.
inline bool takes_from_own(const NextStep& step, const Machines& machines, const SharedMemory& memory) {
  switch (step.kind) {
    case NextStep::kStore:
      if (step.is_weak && machines.is_incoherent(step.address)) return true;
      if ((memory.model().has_global_flush || memory.model().has_poison) && memory.is_shared(step.address)) return true;
      return step.is_locked && machines.awaits_write_back(step.thread);
    case NextStep::kClflush:
      return machines.has_dirty_copy(step.thread, step.address) ||
             memory.has_pending(machines.machine_of(step.thread), step.address);
    case NextStep::kFence:
      return machines.awaits_write_back(step.thread);
    default:
      return false;
  }
}

// The machines from whose failure the step takes something: bit m is machine m. At most its own, the one that has the
// line dirty, and the line's home.
inline std::uint32_t taken_from(const NextStep& step, const Machines& machines, const SharedMemory& memory) {
  const MachineId own = machines.machine_of(step.thread);
  std::uint32_t taken = takes_from_own(step, machines, memory) ? 1u << own : 0;
  if (step.kind == NextStep::kLoad || step.kind == NextStep::kStore) {
    const MachineId owner = memory.pending_owner(step.address);
    if (owner != kNoMachine && owner != own) taken |= 1u << owner;
  }
  const bool has_address = step.kind != NextStep::kFence && step.kind != NextStep::kNothing;
  if (const MachineId home = has_address ? memory.home_of(step.address) : kNoMachine; home != kNoMachine)
    taken |= 1u << home;
  return taken;
}

// The last failure point of the machine that took the last steps, of a schedule that is given: whether a failure there
// left all that one would leave now. It did if the point's step only wrote something back, the machine alone took steps
// since then, of shared memory that they had nothing to choose of, and no store became visible. For then what is
// pending now was pending there, and what is not any more was written back by that step: of these stores the failure
// there could have left all, too.
// Where stores became visible since then, a failure now has more to leave. What it leaves if it keeps none of them, the
// point's has left: so it keeps one at least. Where they are of one line, that is the first of them.
class LastFailurePoint {
 public:
  // Before the step is carried out. `points`: the machines whose failure point it is. `is_simple`: it is one of
  // coherent memory, or of store buffers, that chooses nothing.
  void note_step(MachineId own, std::uint32_t points, bool is_simple, std::uint64_t stores) {
    if (is_simple && points == 1u << own) {
      machine_ = own;
      stores_ = stores;
    } else if (!is_simple || points != 0 || own != machine_) {
      forget();
    }
  }
  void forget() { machine_ = kNoMachine; }
  // How many stores there were, if it is one of this machine: a failure now that keeps none of the later ones leaves
  // what one there left.
  std::optional<std::uint64_t> stores_at(MachineId machine) const {
    return machine == machine_ ? std::optional(stores_) : std::nullopt;
  }
  // Bit m is machine m.
  std::uint32_t covered(std::uint64_t stores) const {
    return machine_ != kNoMachine && stores == stores_ ? 1u << machine_ : 0;
  }

 private:
  MachineId machine_ = kNoMachine;
  std::uint64_t stores_ = 0;
};

}  // namespace crashcut::cxl
