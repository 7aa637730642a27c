// The second oracle of pmem/: the crashes of one recorded schedule, from the rules as they are written down.
//
// A schedule is a list of nodes in the order in which they took effect. What must come before what is a matrix, closed
// by brute force: each thread's own order by the paper's table; a load after the stores of other threads that it read
// from; and the order of stores and flushes of one line. A crash happens at any set of nodes that is closed
// downwards under it, and any set of stores may be on the medium that is closed under the order of each line and holds
// what completed flushes have written back. It shares nothing with pmem/.
#pragma once

#include <set>

#include "tests/pmem_machine.h"
#include "tests/pmem_program.h"

namespace crashcut::tests {

struct PmemNode {
  enum Kind { kRead, kWrite, kNonTemporal, kLocked, kMfence, kSfence, kFlushOpt, kFlush, kMark };
  Kind kind;
  int thread;
  int op;                    // in its thread
  int address = 0;           // compact
  int bytes = 0;             // of a store; 0 for a locked instruction that did not write
  int value = 0;             // of a store; of a mark: which
  bool is_piece = false;     // of a store in several pieces
  std::set<int> reads_from;  // nodes of other threads
};

// The nodes are few: at most 16.
std::set<PmemOutcome> outcomes_of_schedule(const PmemProgram& program, const std::vector<PmemNode>& nodes,
                                           MachineKind kind);

}  // namespace crashcut::tests
