// Replay: an execution of a threaded program run again by its schedule, with a crash and one recovery after it or
// without.
#pragma once

#include <functional>
#include <optional>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/threads/check.h"

namespace crashcut::recovery {

// A recovery of what the execution wrote.
struct CrashReplay {
  std::uint64_t fingerprint;
  std::vector<std::uint32_t> path;
};

struct ReplaySetup {
  bool is_loud = false;             // what the program prints is shown
  bool is_known_to_hang = false;    // after the schedule a thread hangs: not all of the step limit is waited for
  std::function<bool()> is_late{};  // once it says yes, the replay is given up; empty: never
};

// An error where the program does something else, or, with a crash, writes other things.
tl::expected<ThreadFinding, result::Failure> replay_threads(const ThreadPlan& plan, const Schedule& schedule,
                                                            const std::optional<CrashReplay>& crash,
                                                            const ReplaySetup& setup);

// Runs schedules again, one after the other; `on_told` hears of those that came out as they were.
void replay_all(const ThreadPlan& plan, const KeptExecutions& kept, const std::function<bool()>& is_late,
                const std::function<void(const ThreadFinding&)>& on_told);

// The same up to a step, where the program waits for a debugger: on_held gets its process, which is gone when that
// returns.
tl::expected<void, result::Failure> hold_threads(const ThreadPlan& plan, const Schedule& schedule, std::uint32_t step,
                                                 const std::function<void(int process)>& on_held);

// The same for the recovery of what the execution wrote: it waits after so many answers of its path, 0: when it begins.
tl::expected<bool, result::Failure> hold_recovery(const ThreadPlan& plan, const Schedule& schedule,
                                                  const CrashReplay& crash, std::uint32_t answers,
                                                  const std::function<void(int process)>& on_held);

// What a search found, run once more: whether it does the same, and the steps in words. Nothing is changed where
// `is_late` says that there is no time for it.
void replay_finding(const ThreadPlan& plan, const std::function<bool()>& is_late, ThreadFinding& finding);

// The flush that a crash of the finding lacks: adds it to the finding's crash. `is_over` says when to give up.
void add_missing_flush(const ThreadPlan& plan, const std::function<bool()>& is_over, ThreadFinding& finding);

// A data race ended the execution: what comes of it if the program goes on, as far as that can be followed.
void follow_race(const ThreadPlan& plan, const std::function<bool()>& is_late, ThreadFinding& finding);

// Whether a finding is no more than what main() returned, where that means nothing: main() is declared to return
// nothing, or returns something else under the same schedule.
bool is_meaningless_result(const ThreadPlan& plan, const std::function<bool()>& is_late, ThreadFinding finding);

}  // namespace crashcut::recovery
