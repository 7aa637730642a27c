// The oracle of pmem/: a machine that executes a small program in every way there is, and crashes at every moment.
//
// Deliberately simple, and it shares nothing with pmem/. A state has a store buffer for each thread, a queue of stores
// for each line that are in the cache and not on the medium, a set of non-temporal stores under way, the bytes that the
// threads see and the bytes on the medium. Every possible step is taken from every state: a thread executes, an entry
// leaves a buffer, the oldest store of a line reaches the medium. Flushes wait: clflush leaves the buffer when its
// line's queue is empty; clflushopt leaves a marker in the queue, and fences wait for the markers of their thread. The
// outcomes are the media of all states.
#pragma once

#include <set>

#include "tests/pmem_program.h"

namespace crashcut::tests {

enum class MachineKind { kPx86, kEadr, kStrict };

struct MachineResult {
  std::set<PmemOutcome> outcomes;
  std::size_t states = 0;
  bool is_complete = true;  // no more states than states_max
};

// `medium`: the persistent bytes at the beginning; empty: all zero.
MachineResult run_machine(const PmemProgram& program, MachineKind kind = MachineKind::kPx86,
                          std::size_t states_max = 2'000'000, const PmemOutcome& medium = {});

}  // namespace crashcut::tests
