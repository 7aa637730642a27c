// Trap: accesses to persistent memory by code that is not instrumented (crashcut pmem --trap).
//
// An access to a region faults. Its instruction is decoded, and then executed by the processor itself, with the
//   program's registers, on a copy of the bytes: the copy of the instruction names a scratch operand instead of the
//   region. So its results and flags are exact. What it loads and stores goes through accesses.h, as accesses of
//   instrumented code do.
// Flushes of a region fault too. Fences and locked instructions on ordinary memory do not: before main() they are found
//   by decoding the functions of all loaded code, and a breakpoint is put in their place (fences.cc).
// Threads: one schedule of them is run (threaded.h). Locked instructions of the program and its libraries are steps,
//   those of libc are fences. A fault or breakpoint is dealt with on the thread's own stack, so that threads take turns
//   within.
// An instruction is what it is: memcpy() of libc is the stores that it is made of, in their order; a load of a vector
//   is one load of all its bytes.
// Does not model: gathers of AVX-512, scatters, and instructions with operands of more than 64 bytes: each is refused
// by
//   a sentence. A masked load of AVX-512 loads the other lanes too. Code without unwind information, and code that is
//   made while the program runs, is not searched for fences: a fence that is not seen orders nothing, so states may be
//   reported that cannot happen.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstdint>
#include <span>

#include "recovery/inprocess/memory/decoder.h"

namespace crashcut::inprocess {

bool is_trapping();
// Before system calls are modelled, if accesses are to be trapped.
void start_traps();

// A fault at an address of a region. It has been dealt with.
void do_trapped_access(ucontext_t& context);

// A breakpoint, or a single step. False: it is none of ours.
bool do_trap(const siginfo_t& info, ucontext_t& context);

// --- fences.cc
struct FenceSite {
  std::uint64_t address;
  std::uint8_t first;  // the byte that the breakpoint replaced
  bool is_step;        // of a thread that is scheduled: libc's are none
};
// Puts breakpoints into all code that is loaded.
void break_into_fences();
// Null: none is there.
const FenceSite* find_fence(std::uint64_t address);
void set_breakpoint(const FenceSite& site, bool is_set);

// --- trap_strings.cc
// movs, stos, lods, cmps and scas, with or without rep. False: it is none of these.
bool do_string_instruction(const Instruction& instruction, ucontext_t& context);

// --- trap_lanes.cc
// Gathers and masked loads of AVX2; `base` is the address without the index. False: it is none of these.
bool do_load_of_lanes(const Instruction& instruction, std::uint64_t base, ucontext_t& context);
// Of a masked move of AVX; 0: it is none.
std::size_t masked_lane_bytes(ZydisMnemonic mnemonic);

}  // namespace crashcut::inprocess
