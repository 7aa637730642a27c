// The reductions against the oracle, on random small programs: the same outcomes, and, for the optimal one, exactly
// one execution a class and none in vain. Classes are counted by brute force, over all schedules.
#include "tests/scheduler_oracle.h"

#include <gtest/gtest.h>

#include "scheduler/search.h"
#include "tests/random_scripts.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

// Executions with foresight beyond the classes that look at the state, and these classes.
std::uint64_t g_beyond, g_swap_classes;

struct Row {
  const char* name;
  unsigned families;
  std::uint64_t count;
  std::uint64_t schedules_most = 2'500;  // larger programs are left out, but of long runs
};

class Families : public ::testing::TestWithParam<Row> {};

// With foresight: the same outcomes, and not more executions than classes that look at the state.
void check_foresight(ScriptProgram& program, const Found& all, std::uint64_t seed) {
  SwapClasses classes;
  SearchSetup setup;
  setup.reduction = ReductionName::kNone;
  setup.on_execution = [&](const Execution& execution) { return classes.add(execution), true; };
  search({&program}, setup);
  const std::uint64_t count = classes.count();
  for (const std::size_t workers : {1, 2}) {
    const Found foresight = explore(program, ReductionName::kOptimal, workers, true);
    EXPECT_EQ(foresight.outcomes, all.outcomes) << "foresight, seed " << seed << "\n" << show(program);
    EXPECT_GE(foresight.executions, count) << "foresight, seed " << seed << "\n" << show(program);
    EXPECT_LE(foresight.executions, all.classes.size()) << "foresight, seed " << seed << "\n" << show(program);
    if (workers == 1) g_beyond += foresight.executions - count, g_swap_classes += count;
  }
}

// With a bound on preemptions: every schedule within it, and it is told where there are more.
void check_preemptions(ScriptProgram& program, const EverySchedule& every, std::uint32_t preemptions_most,
                       std::uint64_t seed) {
  SearchSetup setup;
  setup.bounds.preemptions_most = preemptions_most;
  const SearchResult result = search({&program}, setup);
  EXPECT_EQ(result.executions, every.within(preemptions_most))
      << preemptions_most << " preemptions, seed " << seed << "\n"
      << show(program);
  const bool is_left_out = result.executions < every.found().executions;
  EXPECT_TRUE(is_left_out ? result.bound == Bound::kPreemptions : is_all(result.bound))
      << preemptions_most << " preemptions, seed " << seed << "\n"
      << show(program);
}

// With a bound on the steps of each actor: every class within it, and no other; and it is told where there is more.
void check_depth(ScriptProgram& program, std::uint32_t depth_most, bool has_passing_time, std::uint64_t seed) {
  const Found all = EverySchedule(program, 8'000, depth_most).found();
  for (const ReductionName reduction : {ReductionName::kNone, ReductionName::kSource, ReductionName::kOptimal}) {
    const Found found = explore(program, reduction, 1, false, depth_most);
    if (!has_passing_time) {  // where it passes, who is held back by the bound stands before something else
      EXPECT_EQ(found.outcomes, all.outcomes) << "depth " << depth_most << ", seed " << seed << "\n" << show(program);
    }
    EXPECT_EQ(found.classes, all.classes) << "depth " << depth_most << ", seed " << seed << "\n" << show(program);
    EXPECT_EQ(found.hit_depth, all.hit_depth) << "depth " << depth_most << ", seed " << seed << "\n" << show(program);
    if (reduction != ReductionName::kOptimal) continue;
    EXPECT_EQ(found.asleep, 0u) << "depth " << depth_most << ", seed " << seed << "\n" << show(program);
    EXPECT_EQ(found.executions, all.classes.size()) << "depth " << depth_most << ", seed " << seed << "\n"
                                                    << show(program);
  }
}

// A search in parts: every class in one of them. What was seen of calls on files is learned anew in each, so some are
// run in vain; but no class is counted twice.
void check_resume(ScriptProgram& program, const Found& all, bool has_files, std::uint64_t seed) {
  for (const ReductionName reduction : {ReductionName::kSource, ReductionName::kOptimal}) {
    Found found;
    SearchSetup setup;
    setup.reduction = reduction;
    setup.has_foresight = false;
    setup.bounds.executions_most = 1 + seed % 4;
    setup.on_execution = [&](const Execution& execution) {
      found.outcomes.insert(outcome_of(execution));
      found.classes.insert(class_of(execution.steps));
      return true;
    };
    TreeSketch rest;
    while (true) {
      const SearchResult result = search({&program}, setup);
      ASSERT_FALSE(result.diverged) << "in parts, seed " << seed << "\n" << show(program);
      found.executions += result.executions;
      found.asleep += result.asleep;
      found.hit_timeouts = result.rest.hit_timeouts;
      if (is_all(result.bound)) break;
      ASSERT_EQ(result.bound, Bound::kExecutions) << "in parts, seed " << seed << "\n" << show(program);
      rest = result.rest;
      setup.rest = &rest;
    }
    EXPECT_EQ(found.outcomes, all.outcomes) << "in parts, seed " << seed << "\n" << show(program);
    EXPECT_TRUE(found.hit_timeouts || !all.hit_timeouts) << "in parts, seed " << seed << "\n" << show(program);
    EXPECT_EQ(found.classes.size(), all.classes.size()) << "in parts, seed " << seed << "\n" << show(program);
    if (reduction != ReductionName::kOptimal) continue;
    EXPECT_EQ(found.executions, all.classes.size()) << "in parts, seed " << seed << "\n" << show(program);
    EXPECT_TRUE(has_files || found.asleep == 0) << "in parts, seed " << seed << "\n" << show(program);
  }
}

TEST_P(Families, FindWhatTheOracleFinds) {
  std::uint64_t checked = 0, executions = 0, classes = 0, needless_bounds = 0;
  for_each_seed(GetParam().count, [&](std::uint64_t seed) {
    ScriptProgram program = RandomScripts(seed * 1000003 + GetParam().families, GetParam().families).make();
    const EverySchedule every(program, is_long_run() ? 8'000 : GetParam().schedules_most);
    const Found& all = every.found();
    if (!all.is_whole) return true;  // too large for the oracle
    const Found none = explore(program, ReductionName::kNone);
    EXPECT_EQ(none.outcomes, all.outcomes) << "none, seed " << seed << "\n" << show(program);
    EXPECT_EQ(none.executions, all.executions) << "none, seed " << seed << "\n" << show(program);
    ++checked;
    executions += all.executions;
    classes += all.classes.size();
    const Found source = explore(program, ReductionName::kSource);
    EXPECT_EQ(source.outcomes, all.outcomes) << "source, seed " << seed << "\n" << show(program);
    EXPECT_EQ(source.classes.size(), all.classes.size()) << "source, seed " << seed << "\n" << show(program);
    const Found optimal = explore(program, ReductionName::kOptimal);
    EXPECT_EQ(optimal.outcomes, all.outcomes) << "optimal, seed " << seed << "\n" << show(program);
    EXPECT_EQ(optimal.classes.size(), all.classes.size()) << "optimal, seed " << seed << "\n" << show(program);
    EXPECT_EQ(optimal.executions, all.classes.size()) << "optimal, seed " << seed << "\n" << show(program);
    for (const Found* found : {&none, &source, &optimal}) {
      EXPECT_EQ(found->deadlocks, all.deadlocks) << "seed " << seed << "\n" << show(program);
      EXPECT_TRUE(found->hit_timeouts || !all.hit_timeouts) << "seed " << seed << "\n" << show(program);
      needless_bounds += found->hit_timeouts && !all.hit_timeouts ? 1 : 0;
    }
    EXPECT_EQ(optimal.asleep, 0u) << "optimal, seed " << seed << "\n" << show(program);
    if ((GetParam().families & kSemaphores) != 0) check_foresight(program, all, seed);
    const Found parallel = explore(program, ReductionName::kOptimal, 2);
    EXPECT_EQ(parallel.executions, optimal.executions) << "two workers, seed " << seed << "\n" << show(program);
    EXPECT_EQ(parallel.outcomes, all.outcomes) << "two workers, seed " << seed;
    if (all.classes.size() < 60) check_resume(program, all, (GetParam().families & kFiles) != 0, seed);
    check_preemptions(program, every, seed % 3, seed);
    check_depth(program, 1 + seed % 3, (GetParam().families & kPassing) != 0, seed);
    return !::testing::Test::HasFailure();
  });
  RecordProperty("programs", std::to_string(checked));
  std::printf("%s: %lu programs, %lu schedules, %lu classes\n", GetParam().name, checked, executions, classes);
  if (g_swap_classes > 0)
    std::printf("  with foresight: %lu classes, %lu executions beyond\n", g_swap_classes, g_beyond);
  g_beyond = g_swap_classes = 0;
  EXPECT_GT(checked, 0u);
  // A timed wait that is said to have run out, could it have: seldom wrong, and then to the safe side.
  EXPECT_LE(needless_bounds * 100, checked * 3);
}

INSTANTIATE_TEST_SUITE_P(
    Scheduler, Families,
    ::testing::Values(
        Row{"variables", kVariables, 400}, Row{"mutexes", kMutexes | kVariables, 400},
        Row{"semaphores", kSemaphores, 600}, Row{"semaphores_and_variables", kSemaphores | kVariables, 300},
        Row{"conditions", kConditions | kVariables, 300}, Row{"barriers", kBarriers | kVariables, 300},
        Row{"rwlocks", kRwLocks | kVariables, 400}, Row{"two_writers", kTwoWriters | kVariables, 200},
        Row{"onces", kOnces | kVariables, 200}, Row{"tries", kTries | kMutexes | kSemaphores | kRwLocks, 400},
        Row{"failures", kFailures | kVariables | kMutexes, 300},
        Row{"timers", kTimers | kMutexes | kSemaphores | kVariables, 300},
        Row{"ordered", kOrdered | kSemaphores | kConditions, 300},
        Row{"ordered_locks", kOrdered | kMutexes | kRwLocks | kVariables, 400},
        Row{"ordered_tries", kOrdered | kMutexes | kRwLocks | kTries | kTimers, 300},
        Row{"loops", kLoops | kVariables, 200}, Row{"cancels", kCancels | kSemaphores, 300},
        Row{"cancels_ordered", kCancels | kOrdered | kSemaphores, 300},
        Row{"passing_time", kPassing | kTimers | kSemaphores | kVariables, 1200, 1'500},
        Row{"passing_time_and_locks", kPassing | kTimers | kMutexes | kConditions | kVariables, 1200, 1'500},
        Row{"passing_time_and_failures", kPassing | kTimers | kFailures | kVariables, 1000, 1'500},
        Row{"passing_time_and_threads", kPassing | kTimers | kThreads | kSemaphores, 400, 1'500},
        Row{"threads", kThreads | kVariables | kMutexes, 200}, Row{"memory", kMemory, 600},
        Row{"memory_and_mutexes", kMemory | kMutexes | kFailures, 300},
        Row{"memory_and_timers", kMemory | kTimers | kMutexes, 300},
        Row{"readers_and_semaphores", kRwLocks | kTwoWriters | kSemaphores, 400},
        Row{"readers_and_barriers", kRwLocks | kBarriers, 300},
        Row{"readers_in_line", kOrdered | kRwLocks | kSemaphores | kTries, 300},
        Row{"futexes", kFutexes | kMemory | kTimers, 300},
        Row{"futexes_ordered", kOrdered | kFutexes | kSemaphores, 300}, Row{"robust", kRobust | kMutexes | kTries, 300},
        Row{"robust_ordered", kOrdered | kRobust | kMutexes, 200},
        Row{"assumes", kAssumes | kVariables | kMutexes, 300},
        Row{"destroys", kDestroys | kMutexes | kSemaphores | kRwLocks | kBarriers, 300},
        Row{"destroys_ordered", kOrdered | kDestroys | kMutexes | kSemaphores | kConditions, 300},
        Row{"joins", kJoins | kVariables | kCancels, 300},
        Row{"cancels_and_conditions", kCancels | kConditions | kTimers, 300},
        Row{"timed_conditions", kTimers | kConditions, 600},
        Row{"timed_conditions_ordered", kOrdered | kTimers | kConditions, 300}, Row{"files", kFiles, 400},
        Row{"files_and_mutexes", kFiles | kMutexes | kFailures, 300},
        Row{"files_and_semaphores", kFiles | kSemaphores, 300},
        Row{"files_and_timers", kFiles | kTimers | kMutexes | kSemaphores, 300},
        Row{"files_and_passing_time", kFiles | kPassing | kTimers | kSemaphores, 300, 1'500},
        Row{"files_and_threads", kFiles | kThreads | kRwLocks | kMemory, 300},
        Row{"files_and_joins", kFiles | kJoins | kCancels, 300},
        Row{"files_and_conditions", kFiles | kConditions | kOrdered, 300}, Row{"channels", kChannels, 200},
        Row{"channels_and_semaphores", kChannels | kSemaphores | kVariables, 150},
        Row{"channels_and_threads", kChannels | kThreads | kMutexes, 150}, Row{"signals", kSignals, 500, 700},
        Row{"signals_and_semaphores", kSignals | kSemaphores, 500, 700},
        Row{"signals_and_mutexes", kSignals | kMutexes | kVariables, 500, 700},
        Row{"signals_and_conditions", kSignals | kConditions | kSemaphores, 500, 700},
        Row{"signals_and_timers", kSignals | kTimers | kConditions | kFailures, 500, 700},
        Row{"signals_and_cancels", kSignals | kCancels | kSemaphores, 500, 700},
        Row{"signals_and_threads", kSignals | kThreads | kTries, 500, 700}, Row{"hosts", kHosts | kVariables, 400},
        Row{"hosts_and_mutexes", kHosts | kMutexes | kTries, 400},
        Row{"hosts_and_robust", kHosts | kMutexes | kRobust | kVariables, 300},
        Row{"hosts_ordered", kHosts | kOrdered | kMutexes | kVariables, 300},
        Row{"hosts_and_semaphores", kHosts | kSemaphores | kVariables, 300},
        Row{"hosts_and_timers", kHosts | kTimers | kMutexes | kSemaphores, 300},
        Row{"hosts_and_threads", kHosts | kThreads | kVariables, 300},
        Row{"everything_ordered", ((kThreads - 1) | kMemory | kCancels | kFutexes | kRobust) & ~kLoops, 600},
        Row{"everything", ((kThreads - 1) & ~kOrdered) | kMemory | kCancels, 600}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace crashcut::tests
