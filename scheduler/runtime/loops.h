// Loops: finds threads that spin. A thread spins if it is at a place where it was before, with the same registers and
// the same stack, and has written nothing else since. Its next round then ends like the last one, unless another thread
// writes what the loop reads; so the thread waits for that (memory.h: "await"). A loop that counts its rounds is not
// found, and runs on.
// Loops that lock, or try to, wait in another way: rounds.h. There a hash of all memory, before and after the thread
// ran, says whether it has written anything; it is taken once a thread has come to a place for the second time.
#pragma once

#include "inject/interpose.h"
#include "scheduler/runtime/accesses.h"

namespace crashcut::scheduler::runtime {

extern "C" {
// What the entries of calls_atomic.cc, calls_memory.cc, calls_locks.cc and calls_waits.cc found: rbx, rbp, r12 to r15,
// rsp.
extern std::uint64_t crashcut_entry_registers[7];
}

// An exported function that notes the registers before anything else. In a function that the compiler makes they would
// be in places that only the compiler knows.
#define CRASHCUT_NOTE_REGISTERS                                                                  \
  "movq %rbx, crashcut_entry_registers(%rip)\nmovq %rbp, 8+crashcut_entry_registers(%rip)\n"     \
  "movq %r12, 16+crashcut_entry_registers(%rip)\nmovq %r13, 24+crashcut_entry_registers(%rip)\n" \
  "movq %r14, 32+crashcut_entry_registers(%rip)\nmovq %r15, 40+crashcut_entry_registers(%rip)\n" \
  "movq %rsp, 48+crashcut_entry_registers(%rip)\n"
#define EXPORT_NOTING_REGISTERS(result, name)        \
  CRASHCUT_INTERPOSE(name, CRASHCUT_NOTE_REGISTERS); \
  extern "C" __attribute__((visibility("hidden"), used)) result crashcut_impl_##name

// Before a lock or a try, by which a thread may wait for something in a loop: if the thread has come round to where it
// was before, it rests (rounds.h).
void rest_if_round(const Operation& operation, const void* caller);
// The running actor comes to its next operation; it goes on from it. What it writes in between it writes itself.
void end_segment();
void begin_segment();
// The actor has written something that others could read, or that crashcut does not see.
void note_written();

// The running thread's state at its last entry, before an access with these operands. Where no registers of this thread
// were noted it is not known, and is like no other.
std::uint64_t state_at_entry(std::uint64_t address, std::uint64_t operand);
// Adds what the access, the first of `operation`, waits for, if this is a round of a loop; a load becomes an await.
// True if the loop reads more places than an operation can hold.
bool add_awaits(Operation& operation, std::uint64_t state, std::uint64_t address);
// For models of memory (buffers.h), whose accesses are other operations. Whether the thread was in that state before,
// since it last changed anything; and if so, waits until one of the places that it looked at since holds something
// else. False, and nothing was waited for: there are too many places, or one of them changed meanwhile.
bool is_round(std::uint64_t state);
bool await_change(std::uint64_t state, const void* caller);
// An atomic access that changed nothing; that changed something.
void note_look(const Look& look);
void note_change();
// A plain access: a change, unless it is a read or the thread's own stack; many reads may be a loop.
void note_plain(const MemoryTouch& touch);

}  // namespace crashcut::scheduler::runtime
