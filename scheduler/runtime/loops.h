// Loops: a thread that spins, found exactly: it stands where it stood before, with the same registers and the same
// stack, and has written nothing else since. Then its next round ends as the last one did, unless somebody writes what
// it reads; so it waits for that (memory.h: "await"). A loop that counts its rounds is not one, and runs on.
// Loops that lock, or try to, wait in another way: rounds.h. There what is written is told by a hash of all memory,
// before and after the thread ran, once it has come to a place for the second time.
#pragma once

#include "inject/interpose.h"
#include "scheduler/runtime/accesses.h"

namespace crashcut::scheduler::runtime {

extern "C" {
// What the entries of calls_atomic.cc, calls_memory.cc, calls_locks.cc and calls_waits.cc found: rbx, rbp, r12 to r15,
// rsp.
extern std::uint64_t crashcut_entry_registers[7];
}

// An exported function that notes the registers before anything else: in a function of the compiler's making they would
// be in places that only it knows.
#define EXPORT_NOTING_REGISTERS(result, name)                                                                       \
  CRASHCUT_INTERPOSE(name,                                                                                          \
                     "movq %rbx, crashcut_entry_registers(%rip)\nmovq %rbp, 8+crashcut_entry_registers(%rip)\n"     \
                     "movq %r12, 16+crashcut_entry_registers(%rip)\nmovq %r13, 24+crashcut_entry_registers(%rip)\n" \
                     "movq %r14, 32+crashcut_entry_registers(%rip)\nmovq %r15, 40+crashcut_entry_registers(%rip)\n" \
                     "movq %rsp, 48+crashcut_entry_registers(%rip)\n");                                             \
  extern "C" __attribute__((visibility("hidden"), used)) result crashcut_impl_##name

// Before an operation by which a thread may wait for something by trying again, a lock or a try: where it has come
// round to where it stood before, it rests (rounds.h).
void rest_if_round(const Operation& operation, const void* caller);
// The running actor comes to its next operation; and goes on from it. What it writes between these is its own doing.
void end_segment();
void begin_segment();
// It has written something that others could read, or that is not seen.
void note_written();

// The running thread's state at its last entry, before an access with these operands.
std::uint64_t state_at_entry(std::uint64_t address, std::uint64_t operand);
// Adds what the access, the first of `operation`, waits for, if this is a round of a loop; a load becomes an await.
// True where the loop looks at more than an operation can hold.
bool add_awaits(Operation& operation, std::uint64_t state, std::uint64_t address);
// An atomic access that changed nothing, or something.
void note_look(const Look& look);
void note_change();
// A plain access: a change, unless it is a read or the thread's own stack; many reads may be a loop.
void note_plain(const MemoryTouch& touch);

}  // namespace crashcut::scheduler::runtime
