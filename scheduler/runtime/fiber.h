// Fiber: a thread of the program as a context inside one kernel thread: it has a stack and thread-local storage.
//
// Switching costs a few nanoseconds and no system call. errno, thread_local and pthread_self() are the fiber's own,
//   since the FS base is switched too. Fibers share the kernel's thread id and signal mask, though threads would not.
// Each actor's stack has a fixed place, so that addresses do not depend on the schedule.
#pragma once

#include <cstddef>
#include <cstdint>

#include "inject/mappings.h"

namespace crashcut::scheduler::runtime {

struct Fiber {
  void* stack_pointer = nullptr;  // while it does not run
  std::uint64_t fs_base = 0;
  char* stack_begin = nullptr;  // null for main(), which runs on the process's own stack
  std::size_t stack_bytes = 0;
};

extern "C" void crashcut_switch(void** from, void* to, std::uint64_t fs_base);

inline void switch_fibers(Fiber& from, Fiber& to) {
  crashcut_switch(&from.stack_pointer, to.stack_pointer, to.fs_base);
}

// Once in a process, before any fiber: finds internal functions of libc. False if this libc does not have them.
bool prepare_fibers();
// The fiber of the running thread.
void adopt_main(Fiber& fiber);
// Makes a fiber that will call entry() on the stack of `slot`. False if there is no memory.
bool make_fiber(Fiber& fiber, std::uint32_t slot, std::size_t stack_bytes, void (*entry)());
// At a fiber's end, on it: destructors of thread_local objects.
void run_tls_destructors();
// Zeroes what fibers left on their stacks.
void clear_stacks();
std::uint64_t read_fs_base();
// Where the stacks of all fibers lie.
inject::AddressRange stack_room();

}  // namespace crashcut::scheduler::runtime
