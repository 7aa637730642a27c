// Small programs of machines that share memory, for the tests of cxl/: as text, and at random; and the oracle.
//
// Lines of two words each. A word has two halves, which are stored to alone or together; a load sees both. Every store
// fills the halves with one number. A line has 64 bytes all the same: "fill" writes them all at once.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace crashcut::tests {

struct CxlOp {
  enum Kind {
    kStore,
    kStoreBoth,    // both words of the line: a wide store, in two pieces
    kNonTemporal,  // a word
    kFill,         // all 64 bytes of the line, non-temporal, whole
    kLoad,
    kXchg,
    kCas,
    kMfence,
    kSfence,
    kClflush,
    kClflushopt,
    kClwb,
    kLock,
    kUnlock,
    kWaitMachine,
    kJoin,  // waits until the other threads of the machine have done all of theirs
    kEnd,   // of the machine: the last one of its first thread
  };
  Kind kind;
  int word = 0;            // of flushes: a word of the line; of kLock and kUnlock: the mutex; of kWaitMachine: which
  int halves = 3;          // of kStore: bits
  int value = 0;           // of stores, kXchg, kCas
  int expected = 0;        // of kCas: the low half
  bool is_loaded = false;  // of kStore: the value is the low half that the last load saw, plus `value`

  bool operator==(const CxlOp&) const = default;
};

struct CxlProgram {
  struct Thread {
    int machine;
    std::vector<CxlOp> ops;
  };
  int lines = 1;
  int machines = 2;
  int failures_most = -1;  // -1: no bound
  std::vector<bool> never_fails;
  std::vector<Thread> threads;  // the first thread of a machine is the one that ends it
  bool has_global_flush = false, has_poison = false;
  // Memory devices that may fail: numbers behind the machines'. Such failures are not among failures_most.
  int devices = 0;
  // The home of each line, with which it goes away: a machine or a device; -1, or a shorter list: none.
  std::vector<int> homes{};

  // The lines that no hardware keeps coherent; a shorter list: no others.
  std::vector<bool> incoherent{};
  int cache_steps_most = 1;  // that caches take by themselves, by one schedule

  bool is_incoherent(int line) const {
    return static_cast<std::size_t>(line) < incoherent.size() && incoherent[static_cast<std::size_t>(line)];
  }
  int home_of(int line) const {
    return static_cast<std::size_t>(line) < homes.size() ? homes[static_cast<std::size_t>(line)] : -1;
  }
  static int line_of(int word) { return word / 2; }
  std::string to_text() const;
};

// What the machines saw: for each thread of a machine that ended, what its loads, locks and waits gave; 'P' for an
// access that was an error, of poisoned memory or of memory that is gone. 'F' for a machine that failed.
using CxlOutcome = std::string;

// "x=1; clflush x | load x" : '|' between machines, '&' between threads of a machine. `layout` names the words, two a
// line: "x,y z". Operations: x=1, x=r+1 (r: the last load), x,y=1 (a wide store), nt x=1, fill x=1, load x, xchg x,1,
// cas x,0,1, mfence, sfence, clflush x, clflushopt x, clwb x, lock 0, unlock 0, wait 0 (for a machine). Each machine
// ends.
CxlProgram parse_cxl_program(const std::string& layout, const std::string& text);

struct CxlShape {
  int machines = 2;
  int threads_most = 2;  // in all, beyond one a machine
  int ops_most = 3;      // of a thread
  int lines_most = 2;
  bool has_rare = true;  // half words, wide and non-temporal stores, fills
  bool has_sync = true;  // locks and waits
  bool has_clwb = false;
};
CxlProgram random_cxl_program(std::mt19937_64& random, const CxlShape& shape);

// The oracle: a machine that takes every step from every state, failures before every step. It shares no code with cxl/
// and the scheduler. When a machine fails, every set of its pending stores that the rules allow is kept, line by line.
struct CxlOracleResult {
  std::set<CxlOutcome> outcomes;
  std::size_t states = 0;
  bool is_complete = true;
};
CxlOracleResult run_cxl_oracle(const CxlProgram& program, std::size_t states_most = 500'000);

}  // namespace crashcut::tests
