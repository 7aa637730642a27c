// Hold: for a debugger (crashcut gdb), a runner waits after a step, on the stack of the thread that took it, until the
// debugger sets crashcut_held to 0. The debugger knows nothing of fibers: crashcut_held_fibers lists where the other
// threads are.
#pragma once

#include <cstdint>

#include "scheduler/runtime/protocol.h"

extern "C" {

struct CrashcutHeldFiber {
  std::uint64_t actor;
  std::uint64_t stack_pointer;  // as crashcut_switch left it; 0 for the running thread
};
extern volatile std::uint64_t crashcut_held;
extern std::uint64_t crashcut_held_count;
extern CrashcutHeldFiber crashcut_held_fibers[crashcut::scheduler::runtime::kActorsMost];
}

namespace crashcut::scheduler::runtime {

// After a step, on the stack of its thread.
void hold_if_asked();
// After a step that no thread took, as the failure of a host: the debugger gets this host's process, which waits.
void hold_host_if_asked(std::uint32_t host);
// Before this host's process waits for its turn.
void show_to_debugger();
// Waits for the debugger, anywhere. tell() is called when this process can be attached to.
void wait_for_debugger(void (*tell)());

}  // namespace crashcut::scheduler::runtime
