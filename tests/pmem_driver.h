// Runs small programs on pmem/: every class of schedules once, recorded, and every recovery of each recording.
//
// The search of schedules is by brute force: all steps from all prefixes, but for prefixes that differ from an earlier
// one only in the order of steps that commute. Two prefixes are the same if each line had the same stores in the same
// order, and each load and flush had the same stores before it.
#pragma once

#include <functional>
#include <set>

#include "pmem/crash_view.h"
#include "pmem/recorder.h"
#include "tests/pmem_closure.h"
#include "tests/pmem_program.h"

namespace crashcut::tests {

inline constexpr pmem::Address kPmemBase = 0x10000000;
inline constexpr pmem::Address kDramBase = 0x1000;

// The real address of a compact one.
pmem::Address real_address(const PmemProgram& program, int address);

struct DriverOptions {
  pmem::MemoryModel model;  // atomic_bytes is the program's
  bool has_store_buffers = true;
  std::uint64_t reading_order = 0;  // a seed: in which order and how much at a time a recovery reads
  std::size_t classes_max = 100'000;
  std::vector<pmem::AddedFlush> added{};  // flushes that the recorder adds to the program
};

struct DriverResult {
  std::set<PmemOutcome> outcomes;
  std::size_t classes = 0;
  std::size_t recoveries = 0;
  std::size_t distinct_recoveries = 0;  // the sum over the classes of their distinct outcomes
  bool is_complete = true;
};

struct Recoveries;
class PmemExecution;
// `check`, if any, is called with each finished execution and what its recording had.
using CheckClass = std::function<void(const PmemExecution&, const Recoveries&)>;
DriverResult run_driver(const PmemProgram& program, const DriverOptions& options = {}, const CheckClass& check = {});

// The outcomes of one recording, read in the order of a seed, and how many recoveries that took.
struct Recoveries {
  std::set<PmemOutcome> outcomes;
  std::size_t count = 0;
};
// `log` is the recording's own, or one of which more is promised.
Recoveries explore_recoveries(const PmemProgram& program, const pmem::Recording& recording, const persist::Log& log,
                              std::uint64_t reading_order);
inline Recoveries explore_recoveries(const PmemProgram& program, const pmem::Recording& recording,
                                     std::uint64_t reading_order) {
  return explore_recoveries(program, recording, recording.log, reading_order);
}

// One execution of a program, step by step.
class PmemExecution {
 public:
  struct Step {
    int thread;
    int entry;  // that leaves the buffer; -1: the thread executes
  };

  PmemExecution(const PmemProgram& program, const DriverOptions& options);
  std::vector<Step> enabled();
  void take(const Step& step);
  // What tells its class from those of other prefixes.
  std::string key() const;
  // Null at the thread's end.
  const PmemOp* next_op(int thread) const;
  const pmem::StoreBuffer& buffer(pmem::ThreadId thread) const { return recorder_.buffer(thread); }
  int compact(pmem::Address address) const;
  // What took effect, in that order.
  const std::vector<PmemNode>& nodes() const { return nodes_; }
  std::shared_ptr<const pmem::Recording> seal() { return recorder_.seal(); }

 private:
  struct Place {
    std::vector<std::string> stores;
    std::vector<int> writers;
    std::vector<std::uint32_t> groups;
    std::multiset<std::string> others;
  };

  std::uint8_t load(int thread, const PmemOp& op);
  std::uint8_t peek(int thread, const PmemOp& op) const;
  void execute(int thread);
  void note_store(int thread, const pmem::BufferEntry& entry);
  void note_access(int thread, pmem::Address address, const std::string& what, bool counts_own);
  void note_clflushopts();
  std::set<int> sources_of(int thread, const PmemOp& op) const;
  void note_written(const PmemNode& node);
  Place& place_of(pmem::Address address);

  const PmemProgram& program_;
  DriverOptions options_;
  pmem::Recorder recorder_;
  std::vector<PmemNode> nodes_;
  std::vector<int> last_writer_;  // of each byte, a node; -1: none
  std::vector<std::uint8_t> dram_;
  std::vector<std::size_t> next_;
  std::vector<std::uint8_t> loaded_;
  std::map<pmem::Address, Place> places_;
  std::vector<std::set<std::pair<pmem::PlaceId, pmem::Address>>> waiting_;  // clflushopts that have no place yet
};

}  // namespace crashcut::tests
