// Stuck: recoveries that never end, found long before their time is up.
//
// A recovery of one thread never ends if it comes back to a state in which it was before, and nothing from outside can
//   make the second round differ from the first. Its state at a load of persistent memory: the registers that a call
//   keeps, and the control words of floating point; its stack from there up; all other private memory that it can
//   write; persistent memory. A call may change all other registers, so a program expects nothing of them.
// What comes from outside: system calls, so a round has none but sched_yield() and sleeps; time, so rdtsc faults during
//   the round, and with it the clocks that libc reads without a system call; signals, so a recovery that has changed
//   anything in the kernel, or how signals are handled, is not looked at. (May report what cannot happen: a loop that
//   ends by a number that rdrand made.)
// Not found: a loop that counts its rounds, or prints; one without loads of persistent memory; code that is trapped;
//   a program with more than 64 MiB of writable memory. Such recoveries end by their limit.
// Cost: a load counts down. After many loads a round is looked for, which costs a hash of all memory; then after twice
//   as many, and so on.
// Threads: one.
#pragma once

#include <signal.h>

#include <cstdint>

namespace crashcut::inprocess {

// How many loads there are to the next look.
extern constinit std::int64_t g_loads_to_look;
// Loads note the registers of the program (abi.cc).
extern constinit bool g_is_looking;

// A recovery begins.
void watch_for_rounds();
// A load of persistent memory, by a function that may have noted the registers. `operands` is a hash of all that the
// function was given beside the address. Call before anything of ours runs.
void look_for_round(std::uint64_t address, std::uint64_t operands, const void* code);
inline void count_load(const void* at, std::uint64_t operands, const void* code) {
  if (--g_loads_to_look <= 0) [[unlikely]]
    look_for_round(reinterpret_cast<std::uint64_t>(at), operands, code);
}
// Registers were noted for an access of ordinary memory.
void forget_registers();
// A system call of the recovery.
void note_call_in_round(long number);
// What the program does next depends on more than its state: the round begins anew; there will be none.
void end_round();
void stop_watching();
// Whether the fault was rdtsc's, in a round. It is executed now, and no round is looked for any more.
bool is_clock_fault(const siginfo_t& info);

}  // namespace crashcut::inprocess
