// Trees of schedules whose size is known, for estimate_bench.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "persist/estimate.h"
#include "tests/known_programs.h"

namespace crashcut::tests {

struct ThreadTree {
  std::string name;
  ScriptProgram program;
  scheduler::ReductionName reduction = scheduler::ReductionName::kOptimal;
  std::uint32_t preemptions = scheduler::kNoPreemptionBound;
};

// A mutex that each of `threads` takes `times` times.
inline ScriptProgram lockers(std::uint32_t threads, int times) {
  using namespace scheduler;
  ScriptProgram program;
  program.objects.push_back({object(PrimitiveId::kMutex, 1)});
  for (std::uint32_t i = 0; i < threads; ++i) {
    Script script;
    for (int k = 0; k < times; ++k) {
      script.push_back(locks(1));
      script.push_back(unlocks(1));
    }
    program.scripts.push_back(std::move(script));
  }
  return program;
}

inline std::vector<ThreadTree> thread_trees() {
  using scheduler::ReductionName;
  return {
      {"7 writers of a variable", writers(7)},
      {"7 philosophers, an arbiter", philosophers_arbiter(7)},
      {"12 philosophers, one left-handed", philosophers(12, true)},
      {"3 philosophers, no reduction", philosophers(3, true), ReductionName::kNone},
      {"4 philosophers, 2 preemptions", philosophers(4, true), ReductionName::kOptimal, 2},
      {"6 writers, no reduction", writers(6), ReductionName::kNone},
      {"producer, consumer, 5 items", producer_consumer(5)},
      {"readers, 2 writers", readers_and_two_writers_native(1)},
      {"3 lockers, 4 times", lockers(3, 4)},
      {"2 lockers, 9 times", lockers(2, 9)},
      {"4 lockers, twice, source sets", lockers(4, 2), ReductionName::kSource},
      {"6 philosophers, source sets", philosophers_arbiter(6), ReductionName::kSource},
  };
}

// After each execution of a search: how many there will be of them in all.
inline std::vector<persist::Estimate> estimate_all(const ThreadTree& tree) {
  std::vector<persist::Estimate> all;
  scheduler::SearchSetup setup;
  setup.reduction = tree.reduction;
  setup.bounds.preemptions_most = tree.preemptions;
  setup.has_foresight = false;
  setup.progress_every_s = 0;
  setup.on_progress = [&](const persist::Progress& p) {
    const auto done = static_cast<double>(p.executions);
    const auto whole = [&](double part) { return done / std::max(part, 1e-300); };
    all.push_back({whole(p.fraction.high), whole(p.fraction.likely), whole(p.fraction.low)});
  };
  search_with(tree.program, setup, 1);
  return all;
}

}  // namespace crashcut::tests
