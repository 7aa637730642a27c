// ThreadCheck: every schedule of a threaded program, for each the states that a crash can leave of its files, and what
// was found. What crashcut threads does.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/inprocess/session.h"
#include "recovery/memory_notes.h"
#include "recovery/search/tally.h"
#include "recovery/threads/plan.h"
#include "scheduler/runtime/real_program.h"
#include "scheduler/search.h"

namespace crashcut::recovery {

// What it takes to run an execution again.
struct Schedule {
  std::vector<scheduler::runtime::ActorName> actors;
  std::vector<std::uint64_t> racy;        // places where accesses are operations
  std::vector<scheduler::ActorId> steps;  // the actors that take them
};
std::vector<scheduler::ActorId> schedule_of(const scheduler::Execution& execution);

// A violation.
struct ThreadFinding {
  scheduler::Execution execution;
  scheduler::runtime::Details details;
  std::vector<scheduler::runtime::ActorName> actors;
  std::uint64_t number = 0;                     // of the execution, from 1
  bool was_run_again = false;                   // false: not yet, or there was no time
  bool replays = false;                         // it did the same when it was run again
  std::vector<std::uint64_t> racy;              // places where accesses are operations
  std::optional<result::Counterexample> crash;  // the execution itself went well: what a recovery found after it
  std::uint64_t fingerprint = 0;                // of what it wrote
  bool ignores_result = false;                  // the plan's, as the next
  std::uint64_t seed = 0;
  bool is_loosened = false;  // the crash may be of another execution of its class (fusefs/recorder_loosen.cc)
  std::vector<std::uint32_t> crash_path{};  // of the recovery
  bool is_crash_violation = true;           // of a replay: the recovery failed again
  bool is_instrumented = false;             // of a replay: variables were seen
  std::vector<result::Mend> mends{};        // (mend.h, flush_mend.h)
  std::string no_mend{};                    // why there is none, a sentence
  std::optional<result::States> states{};   // of a crash: those that were explored after this execution
};

// What a search that was stopped has still to do, what it had learned and counted. rest.h makes a text of it.
struct ThreadRest {
  scheduler::TreeSketch sketch;
  std::vector<scheduler::runtime::ActorName> actors;
  std::vector<std::uint64_t> racy;
  bool is_opaque = false, is_instrumented = false, ignores_result = false, has_met = false;
  std::uint32_t preemptions = scheduler::kNoPreemptionBound;  // of the round in which it was stopped
  scheduler::SearchCounts counts;
  std::uint64_t violations = 0, assumed_away = 0;
  std::vector<scheduler::ActorId> unexplored_crashes;  // of this execution not all recoveries were run
  search::Tally tally;                                 // of the recoveries of all other executions so far
  // Of several single schedules: the seed at which it was stopped, and how many there are from that one on.
  std::uint64_t seed = 0, seeds_left = 1;
};

// Executions whose schedules are kept for a page, with what it takes to run them again.
struct KeptExecutions {
  static constexpr std::size_t kExecutionsMost = 1000, kStepsMost = 2'000'000;
  std::vector<scheduler::runtime::ActorName> actors;
  std::vector<std::uint64_t> racy;
  std::vector<std::vector<scheduler::ActorId>> schedules;  // at most kExecutionsMost
  std::size_t steps = 0;
};

struct ThreadResult {
  result::Verdict verdict;
  scheduler::SearchResult search;
  std::uint64_t violations = 0;    // those before it was resumed among them: of these there is no finding
  std::uint64_t assumed_away = 0;  // executions in which a thread's crashcut_assume() did not hold
  std::uint64_t threads_most = 0;
  std::uint64_t failure_points = 0;  // places in schedules at which a machine failed
  std::uint64_t restored = 0, forked = 0;
  bool is_opaque = false;           // threads met in atomic variables: every order of operations was tried
  bool has_met = false;             // threads met in atomic variables that are not seen (scheduler/runtime/meetings.h)
  bool may_meet = false;            // there was too much to watch: only that they may
  std::string met_in;               // the function where they were seen to; empty: not known
  bool has_unseen_machine = false;  // a machine's program is not instrumented: whether it meets others is not watched
  bool is_instrumented = false;     // plain and atomic variables were seen
  std::vector<std::string> shared_files;  // NameTable's
  std::vector<std::string> unused_rules;  // names of ThreadPlan::region_rules: no machine asked for that memory
  std::uint64_t races = 0;                // places that were raced for
  std::uint32_t left_running = 0;         // the most threads that were left when the process ended
  std::uint64_t left_executions = 0;      // in how many executions there were any
  bool ignores_result = false;            // what main() returned was not judged
  std::optional<ThreadRest> rest;         // where a bound was hit that more time would lift
  std::optional<ThreadFinding> finding;   // the shortest of those with the first's kind
  struct Kind {
    std::string text;       // one of finding_texts()
    ThreadFinding finding;  // the shortest
    std::uint64_t count = 0;
  };
  std::vector<Kind> kinds;             // of findings that read differently, as they came
  KeptExecutions kept;                 // of machines, if ThreadPlan::wants_states is set
  bool is_after_race = false;          // the finding is a race, and what it leads to could not be followed
  bool is_added_lock_unclear = false;  // where a lock of ThreadPlan::added_locks begins or ends cannot be told
  bool is_resumed = false;
  bool has_recover = false;              // there is a crashcut_recover(), so crashes were tried
  bool has_threaded_recoveries = false;  // recoveries began threads: each was run by one schedule
  std::uint64_t explored = 0;            // executions whose recoveries were run
  std::uint64_t merged = 0;              // those whose recoveries would have been the same
  search::Tally tally;                   // of all recoveries
  MemoryNotes notes;                     // of all executions whose recoveries were run
  result::Bound crash_bound = result::Bound::kNone;
  std::string unexplained;     // why a recovery's violation has no finding
  std::string not_repeatable;  // where it first did something else under the same schedule, in words; empty: nowhere
  std::uint64_t random_executions = 0;  // under random schedules, since others could not be repeated
};

struct ThreadHooks {
  std::function<void(const result::Progress&)> on_progress;
  const persist::Deadline* deadline = nullptr;  // none: all time there is
};

tl::expected<ThreadResult, result::Failure> check_threads(const ThreadPlan& plan, const ThreadHooks& hooks = {},
                                                          const ThreadRest* rest = nullptr);

}  // namespace crashcut::recovery
