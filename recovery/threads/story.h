// ThreadStory: the steps of an execution in words: threads, objects and places by their names.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "recovery/source/names.h"
#include "recovery/threads/check.h"
#include "scheduler/words.h"

namespace crashcut::recovery {

// "main", "thread 1", "the timer of thread 1": one an actor. With machines: "machine 1", "thread 2 of machine 1".
std::vector<std::string> actor_names(const std::vector<scheduler::runtime::ActorName>& actors);
// The machine that an actor runs on, or whose failure it is. 0 if there are no machines.
std::uint32_t machine_of(const std::vector<scheduler::runtime::ActorName>& actors, std::size_t actor);

class ThreadStory : public scheduler::Narrator {
 public:
  // Names and lines of the source are not looked for once `is_late` says yes.
  ThreadStory(const ThreadPlan& plan, const ThreadFinding& finding, const std::function<bool()>& is_late = {})
      : ThreadStory(plan, finding, std::make_shared<source::Names>(is_late)) {}
  // The same with names that several stories share: they remember what they were asked.
  ThreadStory(const ThreadPlan& plan, const ThreadFinding& finding, std::shared_ptr<source::Names> names);

  std::string object_text(scheduler::ObjectId object) const override;
  std::string actor_text(scheduler::ActorId actor) const override;
  std::string holder_text(scheduler::ActorId actor) const override;
  std::string thread_text(scheduler::ObjectId object) const override;
  std::string host_text(scheduler::ObjectId host) const override;
  std::string place_text(scheduler::ObjectId memory, std::uint8_t offset) const override;

  // Not of a machine that has ended or failed.
  bool is_here(const scheduler::Pending& pending) const { return !end_.is_gone(pending.operation); }
  // A machine fails by it.
  bool is_failure(scheduler::ActorId actor) const;
  // If a machine fails by the step at this place: what its threads stood before. Empty for other steps.
  std::vector<std::string> died_before(std::size_t i) const;
  // Not a timer or the like.
  bool is_thread(scheduler::ActorId actor) const;
  // "lock mutex forks+40"
  std::string operation_text(const scheduler::Operation& operation) const;
  // The same without what came of it besides.
  std::string call_text(const scheduler::Operation& operation) const;
  // The step at this place: a call on files as it was made, others as operations.
  std::string step_text(std::size_t i) const;
  // The calls that led to the step, or to the pending operation, at this place, innermost first: those of the program's
  // own code, if there are such. Empty where they are not known.
  std::vector<result::SourceLine> stack_of_step(std::size_t i) const;
  std::vector<result::SourceLine> stack_of_pending(std::size_t i) const;
  // "waits for mutex forks+40, which thread 1 holds"
  std::string waiting_text(const scheduler::Pending& pending) const;
  // "thread 1 writes counter", and the calls that led there, innermost first.
  std::string access_text(const scheduler::runtime::Race::Side& side, std::uint64_t address) const;
  std::vector<result::SourceLine> stack_of(const scheduler::runtime::Race::Side& side) const;
  // "insert list.c:51", of the address that a call returns to; empty if that is not known.
  std::string source_text(scheduler::ActorId actor, std::uint64_t code) const;
  // "counter", or an address.
  std::string variable_text(std::uint64_t address) const;
  // What the actor holds at the end: "mutex forks"
  std::vector<std::string> held_by(scheduler::ActorId actor) const;

 private:
  // Of the machine that the actor runs on, or that the place is on; 0 if there are no machines.
  std::uint32_t machine_of(scheduler::ActorId actor) const;
  std::uint64_t base_of(std::uint32_t machine) const;
  // An address in a file that the machine's program was loaded from, before it was loaded.
  struct Loaded {
    std::string file;
    std::uint64_t address;
  };
  Loaded loaded_at(std::uint32_t machine, std::uint64_t address) const;
  // Of an address that a call returns to, and of some that led one to the other.
  std::vector<result::SourceLine> lines_of(scheduler::ActorId actor, const std::vector<std::uint64_t>& calls) const;
  std::vector<result::SourceLine> own_lines_of(scheduler::ActorId actor, const std::vector<std::uint64_t>& calls) const;
  // The function that the thread began in: "worker(int)"; "std::thread (worker.cc:40)" if only the place is known that
  // started it.
  std::string routine_text(scheduler::ActorId actor) const;
  // What is known since the step at this place of the stores that a failed machine had in its caches: "lost: 8 bytes at
  // pool+72, by thread 3 of machine 0 in insert list.c:51". At its failure: which stores these are.
  std::string losses_text(std::size_t i) const;
  // "forks[1]", "ring+8"; empty where no variable or region holds the place.
  std::string name_of_place(std::uint64_t place) const;
  std::string name_on_stack(std::uint32_t machine, std::uint64_t address) const;

  const ThreadFinding* finding_;
  std::vector<std::string> executables_;  // one a machine
  std::vector<RegionRule> region_rules_;
  std::shared_ptr<source::Names> names_of_code_;
  scheduler::State end_;  // as the execution left it
  std::map<scheduler::ObjectId, std::uint64_t> addresses_;
  std::map<scheduler::ObjectId, scheduler::ActorId> threads_;  // whose thread object it is
  std::vector<std::string> names_;
};

}  // namespace crashcut::recovery
