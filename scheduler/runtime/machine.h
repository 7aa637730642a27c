// Machine: what the program is told of the machine it runs on. It is the same in every execution, on every machine: two
// processors, no load, time that passes only where the program asks for it or waits, random numbers that are the
// thread's own.
//
// Three ways lead there: system calls that ask the kernel (machine.cc), instructions that ask the processor
//   (instructions.cc), and files whose contents the kernel makes up or that change by themselves (outside.cc).
// Does not model: rdrand and rdseed in code that runs them without asking cpuid first; rdpid.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>

#include "inject/call.h"

namespace crashcut::scheduler::runtime {

inline constexpr std::uint32_t kProcessors = 2;
inline constexpr std::uint64_t kMemoryBytes = std::uint64_t{4} << 30;
inline constexpr std::uint64_t kUptime_s = 1000;  // when the program starts
inline constexpr const char* kHostName = "crashcut";

// --- machine.cc
// A system call that asks for what changes from run to run: all of the below. False where it is no such call.
bool do_machine_call(inject::Call& call);
// The program's numbers of processes and threads in place of the kernel's. False where it is no such call.
bool answer_number(long number, long& result);
// Answers a system call that asks for what changes from run to run. False where it is no such call. Negative errnos.
bool answer_query(long number, const long* a, const void* caller, long& result);

// --- outside.cc: files that are not the model's
// Does a system call on a real file where what it says changes from run to run: devices of random numbers, /proc, /sys,
// times and numbers of files. False where the kernel does it, with `a` as it is to be done.
bool do_outside_call(long number, long* a, long& result);
// An execution begins, and ends: that of this process, or of a child that died.
void begin_outside();
void end_outside(long process);

// --- instructions.cc
// rdtsc, rdtscp and cpuid raise SIGSEGV from now on in this process and its children, where the processor can do that.
void trap_instructions();
// Where the program handles SIGSEGV itself, and nobody stands before its handler.
void run_instructions();
// What the signal's handler does first: whether the signal was raised by such an instruction, which is done now.
bool emulate_instruction(const siginfo_t& info, void* ucontext);

}  // namespace crashcut::scheduler::runtime
