// ThreadPlan: a plan of which schedules are searched, too; or of several machines.
#pragma once

#include "pmem/repair.h"
#include "recovery/plan.h"
#include "scheduler/runtime/added_locks.h"
#include "scheduler/search.h"

namespace crashcut::recovery {

// A machine of several that take part in an execution (scheduler/runtime/hosts.h).
struct Machine {
  std::string named;  // the executable, or the source it is made from, as typed
  std::string executable;
  std::string id;  // the program's build id, or a checksum
};

// The caches of machines that share memory (cxl/shared_memory.h).
struct Caches {
  bool has_global_flush = false;
  bool has_poison = false;
  bool poison_is_value = false;  // a program that loads from a poisoned line sees a value, not SIGBUS
};

// What is special about shared memory of a name, as reports name it: that of crashcut_cxl(), a path, a segment.
struct RegionRule {
  std::string name;
  // With whose failure the memory goes away: a machine's, or that of the memory device that it lies on. Devices that
  // may fail have the numbers behind the machines'.
  std::optional<std::uint32_t> home{};
  bool is_incoherent = false;  // no hardware keeps it coherent (cxl/incoherent_memory.h)
};

// Of the plan: `memory` is there for persistent memory that threads share, and for store buffers. `wants_all` also goes
// on after an execution that failed, `max_recoveries` is that of all executions, `time_limit` that of the whole search.
inline constexpr std::uint32_t kCacheStepsMost = 100;
struct ThreadPlan : Plan {
  scheduler::ReductionName reduction = scheduler::ReductionName::kOptimal;
  bool has_foresight = true;
  std::uint64_t executions_most = 0;  // scheduler::Bounds, as the next two
  std::uint32_t steps_most = 0;
  std::uint32_t preemptions_most = scheduler::kNoPreemptionBound;
  std::uint32_t spurious_most = 0;
  std::uint32_t timeouts_most = 2;
  std::vector<std::pair<scheduler::PrimitiveId, std::int64_t>> policies;
  double step_limit_s = 10;
  bool is_strict_exit = false;  // threads that are left when the process ends are a violation
  bool ignores_result = false;  // what main() returns is not judged
  bool merges_logs = true;      // recoveries that would be those of an earlier execution are not run
  // Empty: the program is no machine. Else each runs its program with the same arguments, `executable` is the first
  // one's, and no recoveries are run. `failing` has a bit for each machine that may fail.
  std::vector<Machine> machines{};
  std::uint32_t failures_most = 0, failing = 0;
  std::vector<std::string> devices{};  // paths that are shared memory of the machines
  std::vector<RegionRule> region_rules{};
  std::uint32_t failing_devices = 0;   // how many homes are no machines
  std::uint32_t cache_steps_most = 1;  // that caches of incoherent memory take by themselves, by single schedules
  bool wants_outcomes = false;         // what machines print, or the program
  bool has_garbage = false;            // fresh shared memory holds garbage, not zeroes
  std::optional<Caches> caches{};      // none: what machines share is coherent, and survives
  enum class Schedules : std::uint8_t { kAll, kOne, kRandom } schedules = Schedules::kAll;
  std::uint64_t random_most = 0;                             // of kRandom: so many
  std::uint64_t seeds_most = 1;                              // of kOne: so many, those of `seed` and the seeds after it
  std::vector<scheduler::runtime::AddedLock> added_locks{};  // the program runs as if it had them
  // The same of flushes. A place is an offset in the executable of the machine of that number.
  struct MachineFlush {
    std::uint32_t machine = 0;
    pmem::AddedFlush flush{};
    bool operator==(const MachineFlush&) const = default;
  };
  std::vector<MachineFlush> added_flushes{};
  bool has_store_buffers = false;  // crashcut threads --memory tso: `memory` has no persistent part

  // Whether accesses of instrumented code are those of a model (inprocess/memory/threaded.h), and each one is a step.
  bool models_memory() const { return memory || caches; }
  bool has_memory_steps() const { return models_memory() && schedules != Schedules::kOne; }
};

// "threads"; "pmem" with persistent memory; "cxl" if there are machines.
std::string command_of(const ThreadPlan& plan);
// Of tokens: "threads" or "cxl".
std::string token_command_of(const ThreadPlan& plan);

}  // namespace crashcut::recovery
