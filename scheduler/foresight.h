// Foresight: independence that looks at the state, for semaphores: fewer executions, and the same findings.
//
// On a semaphore a post and a wait commute while the count is above zero: a wait that would not have waited learns
//   nothing from the post, and only data that the two race for could tell. Classes under such swaps are larger than
//   Mazurkiewicz's and no partial orders (which of two posts let a third wait in is open), so no wakeup tree tells
//   them apart. Instead, an execution that the reduction asks for is first foreseen: from what each actor did before
//   after the same results, and the state. If swaps lead from what is foreseen to an execution that was run, the
//   foreseen one is an execution too, of the same class, and need not be run: a run that happened vouches for it.
//   If not, or where an actor's next step is not known, the program is run.
// So nothing is lost even where the guess is wrong: a guess is used only once it is proved.
// Cost: counted in steps, so that a search does the same on every machine. A step that is foreseen costs more than one
//   that is run, but to begin an execution costs as much as many steps (kForeseenCost, kStartSteps). So short
//   executions are cheaper to foresee than to run, and long ones are not. If foreseeing has cost more than all
//   executions that were run and all that were saved, foresight gives up: from then on all is run.
// Threads: several workers share one. Whether it gives up is decided by what the search learns, in the order in which
//   the search learns it, so it does not depend on how many workers there are.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "scheduler/execution.h"

namespace crashcut::scheduler {

class Foresight {
 public:
  // The execution: foreseen and vouched for, then is_foreseen is set; else it must be run, learn() be told, and, if
  // it was foreseen at all, land() with its outcome. `looked_at`: how many steps were foreseen for it.
  std::optional<Execution> foresee(const RunRequest& request, std::size_t& looked_at);
  // `foreseen`: what foresee() said of it, or null.
  void learn(const Execution& execution, const Execution* foreseen);
  // An execution that was foreseen and had to be run has been run.
  void land(std::uint64_t form);
  // The search has come to this execution. What foreseeing it costs is counted against what that saved.
  void weigh(const Execution& execution);
  // Whether there is anything to gain. Without a semaphore every class is a partial order, and there is nothing.
  bool is_of_use() {
    const std::lock_guard lock(mutex_);
    return has_semaphores_ && !has_given_up_;
  }
  bool has_given_up() {
    const std::lock_guard lock(mutex_);
    return has_given_up_;
  }

 private:
  struct Next {
    std::optional<Operation> operation;  // none: its end
    bool is_known = true;                // false: it was different at different times
  };
  static bool list_pending(const State& state, const std::vector<const Next*>& next, std::vector<Pending>& pending);
  // `looked_at` is told how many steps were foreseen, also where the program has to be run.
  std::optional<Execution> simulate(const RunRequest& request, std::size_t& looked_at) const;
  const Next* next_of(ActorId actor, std::uint64_t history) const;
  void note_next(ActorId actor, std::uint64_t history, const Operation* operation);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::uint64_t, Next> next_;      // an actor and its history -> what it does next
  std::unordered_set<std::uint64_t> seen_;            // normal forms of what was run
  std::unordered_multiset<std::uint64_t> in_flight_;  // of what is being run, as foreseen
  std::vector<ObjectStart> objects_;
  std::uint32_t actor_count_ = 0;
  std::uint64_t foreseen_cost_ = 0, run_cost_ = 0, saved_cost_ = 0;  // in steps that are run
  bool has_semaphores_ = false, has_given_up_ = false;
};

class ForesightProgram : public Program {
 public:
  ForesightProgram(Program& program, Foresight& foresight) : program_(&program), foresight_(&foresight) {}
  Execution run(const RunRequest& request) override;

 private:
  Program* program_;
  Foresight* foresight_;
};

}  // namespace crashcut::scheduler
