// ThreadStory: the steps of an execution in words: threads, objects and places by their names.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "recovery/source_lines.h"
#include "recovery/threads/check.h"
#include "recovery/threads/symbols.h"

namespace crashcut::recovery {

// "main", "thread 1", "the timer of thread 1": one an actor.
std::vector<std::string> actor_names(const std::vector<scheduler::runtime::ActorName>& actors);

class ThreadStory {
 public:
  // Source lines are not looked for once `is_late` says yes.
  ThreadStory(const ThreadPlan& plan, const ThreadFinding& finding, const std::function<bool()>& is_late = {});

  // "main", "thread 2"
  std::string actor_text(scheduler::ActorId actor) const;
  // Not a timer or the like.
  bool is_thread(scheduler::ActorId actor) const;
  // "lock mutex forks+40"
  std::string operation_text(const scheduler::Operation& operation) const;
  std::string call_text(const scheduler::Operation& operation) const;
  // The step at this place: a call on files as it was made, others as operations.
  std::string step_text(std::size_t i) const;
  // The function that an address is in; empty where it is not known.
  std::string place_text(std::uint64_t caller) const {
    return symbols_.name_of_function(caller, finding_->details.program_base);
  }
  // "waits for mutex forks+40, which thread 1 holds"
  std::string waiting_text(const scheduler::Pending& pending) const;
  // "thread 1 writes counter", and the calls that led there, innermost first.
  std::string access_text(const scheduler::runtime::Race::Side& side, std::uint64_t address) const;
  std::vector<SourceLine> stack_of(const scheduler::runtime::Race::Side& side) const;
  // "counter", or an address.
  std::string variable_text(std::uint64_t address) const;
  // What the actor holds at the end: "mutex forks"
  std::vector<std::string> held_by(scheduler::ActorId actor) const;

 private:
  std::string object_text(scheduler::ObjectId object) const;
  std::string thread_text(scheduler::ObjectId object) const;
  std::string signal_text(const scheduler::Access& access) const;
  std::string memory_text(const scheduler::Access& access) const;

  const ThreadFinding* finding_;
  std::string executable_;
  std::function<bool()> is_late_;
  Symbols symbols_;
  scheduler::State end_;  // as the execution left it
  std::map<scheduler::ObjectId, std::uint64_t> addresses_;
  std::map<scheduler::ObjectId, scheduler::ActorId> threads_;  // whose thread object it is
  std::vector<std::string> names_;
};

}  // namespace crashcut::recovery
