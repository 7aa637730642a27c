// One arena for the scheduler's state of an execution and for what the execution records: shared memory, begun anew
// with each execution. Until then the coordinator reads the recording in it.
#include <cstdint>

#include "recovery/inprocess/arena.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/joint/joint.h"
#include "scheduler/runtime/world.h"

namespace crashcut::joint {

static constinit inprocess::Arena g_kept;

void keep_memory() { g_kept = inprocess::shared_arena(); }

}  // namespace crashcut::joint

namespace crashcut::scheduler::runtime {

void reset_arena() { inprocess::shared_arena() = joint::g_kept; }

// What is not the program's image: the arenas, and the stack of the model.
bool is_arena_room(std::uint64_t address) {
  const auto* at = reinterpret_cast<const std::byte*>(address);
  return inprocess::shared_arena().contains(at) || inprocess::private_arena().contains(at) ||
         (at >= inprocess::g.model_stack_begin && at < inprocess::g.model_stack_top);
}

}  // namespace crashcut::scheduler::runtime
