// Trap: accesses to persistent memory by code that is not instrumented (crashcut pmem --trap).
//
// An access to a region faults. Its instruction is decoded, and then executed by the processor itself, with the
//   program's registers, on a copy of the bytes: the copy of the instruction names a scratch operand instead of the
//   region. So its results and flags are exact. What it loads and stores goes through accesses.h, as accesses of
//   instrumented code do.
// Flushes of a region fault too. Fences and locked instructions on ordinary memory do not: before main() they are found
//   by decoding the functions of all loaded code, and a breakpoint is put in their place (fences.cc).
// Threads are scheduled (threaded.h). Locked instructions of the program and its libraries are steps, those of libc are
//   fences. A fault or breakpoint is dealt with on the thread's own stack, so that threads take turns within.
// An instruction is what it is: memcpy() of libc is the stores that it is made of, in their order; a load of a vector
//   is one load of all its bytes.
// Does not model: instructions whose operand is implicit, as that of xlat: each is refused by a sentence. Arithmetic of
//   AVX-512 under a mask loads the other lanes too, and xrstor all that could be there. Functions
//   with neither unwind information nor a symbol, and code that is made while the program runs, are not searched for
//   fences: a fence that is not seen orders nothing, so states may be reported that cannot happen.
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
// Before the first of them: asks the processor how it saves vectors.
void find_saved_vectors();
// Gathers, scatters, masked loads and maskmovdqu; `base` is the address without the index. False: it is none of these.
bool do_lanes(const Instruction& instruction, std::uint64_t base, ucontext_t& context);
// Of a masked move of AVX; 0: it is none.
std::size_t masked_lane_bytes(ZydisMnemonic mnemonic);

// --- trap_state.cc
inline constexpr std::size_t kStateMost = 16384;
void find_state_bytes();
// How many bytes fxsave, xsave or one of their kin accesses at most; 0: it is none of these.
std::size_t state_bytes(const Instruction& instruction);
// What such an instruction loads goes to `to`. All else there is zero.
void load_state(const Instruction& instruction, std::uint64_t address, std::byte* to);
// Ones, but for the header if that was loaded.
void fill_state(std::byte* to, std::size_t bytes, bool keeps_header);
// Stores the bytes that came out alike over zeros and over ones.
void store_what_is_alike(std::uint64_t address, std::span<const std::byte> over_zeros, const std::byte* over_ones,
                         const void* code);

}  // namespace crashcut::inprocess
