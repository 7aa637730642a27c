// Machine: what the program sees of the machine that it runs on. It is the same in every execution and everywhere: two
// processors, no load, time that passes only when the program asks for the time or waits, and random numbers that each
// thread gets from a sequence of its own.
//
// Programs ask for it in three ways: by system calls (machine.cc), by instructions (instructions.cc), and by files
//   whose contents the kernel makes up or that change by themselves (outside.cc).
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
// Does a system call that asks for what changes from run to run, by all functions below. False if it is no such call.
bool do_machine_call(inject::Call& call);
// Answers with the program's own ids of processes and threads, not the kernel's. False if it is no such call.
bool answer_number(long number, long& result);
// Answers a system call that asks for what changes from run to run. False if it is no such call. Negative errnos.
bool answer_query(long number, const long* a, const void* caller, long& result);

// --- outside.cc: files that are not the model's
// Does a system call on a real file if the answer changes from run to run: devices of random numbers, /proc, /sys,
// times and numbers of files. False if the kernel is to do it, with the arguments `a` as they are then.
bool do_outside_call(long number, long* a, long& result);
// An execution begins. It ends: that of this process, or of a child that died.
void begin_outside();
void end_outside(long process);

// --- instructions.cc
// From now on rdtsc, rdtscp and cpuid raise SIGSEGV in this process and its children, if the processor supports that.
void trap_instructions();
// The program handles SIGSEGV itself from now on: the instructions run as they are.
void run_instructions();
// Called first by the handler of SIGSEGV. Whether such an instruction raised the signal; then it has been done.
bool emulate_instruction(const siginfo_t& info, void* ucontext);

}  // namespace crashcut::scheduler::runtime
