// Fiber: a thread of the program as a context of its own inside one kernel thread: stack, thread-local storage.
//
// Switching costs a few nanoseconds and no system call. errno, thread_local and pthread_self() are the fiber's own,
//   since the FS base is switched too. What is shared and should not be: the kernel's thread id, signal masks.
// Stacks have fixed places, one an actor, so that addresses do not depend on the schedule.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crashcut::scheduler::runtime {

struct Fiber {
  void* stack_pointer = nullptr;  // while it does not run
  std::uint64_t fs_base = 0;
  char* stack_begin = nullptr;  // none for main's
  std::size_t stack_bytes = 0;
};

extern "C" void crashcut_switch(void** from, void* to, std::uint64_t fs_base);

inline void switch_fibers(Fiber& from, Fiber& to) {
  crashcut_switch(&from.stack_pointer, to.stack_pointer, to.fs_base);
}

// Once a process, before any fiber: finds what libc keeps to itself. False where this libc has no such thing.
bool prepare_fibers();
// The fiber of the running thread.
void adopt_main(Fiber& fiber);
// A fiber that will call entry() on the stack of `slot`. False where memory is short.
bool make_fiber(Fiber& fiber, std::uint32_t slot, std::size_t stack_bytes, void (*entry)());
// At a fiber's end, on it: destructors of thread_local objects.
void run_tls_destructors();
// Zeroes what fibers left on their stacks.
void clear_stacks();
std::uint64_t read_fs_base();
// Whether the address is on a fiber's stack or in the room between.
bool is_stack_room(std::uint64_t address);

}  // namespace crashcut::scheduler::runtime
