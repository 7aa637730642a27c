// ScriptProgram: a small program of scripted actors, for tests of the scheduler: the same primitives as the real
// runtime's, without processes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "scheduler/execution.h"
#include "scheduler/passing_time.h"
#include "scheduler/rounds.h"
#include "scheduler/search.h"

namespace crashcut::tests {

// An actor's script: operations, and jumps that depend on the last result.
struct Instruction {
  enum class Kind {
    kOperation,  // do it
    kSleep,      // the same, and it is a sleep: it also ends where nobody else can go on
    kSkipIf,     // when the last result is `value`, skip `count` instructions
    kBackIf,     // when the last result is `value`, go back so many
    kLeave,      // barrier: leave the generation that the last result names
    kFailIf,     // an assertion: when the last result is `value`, the process fails
  } kind = Kind::kOperation;
  scheduler::Operation operation{};
  std::int64_t value = 0;
  std::size_t count = 0;
  bool fails_by_signal = false;  // where a signal comes before it, it is not done after the handler either
};
using Script = std::vector<Instruction>;

inline Instruction does(scheduler::Operation operation) { return {Instruction::Kind::kOperation, operation}; }
inline Instruction does_or_fails(scheduler::Operation operation) {
  return {Instruction::Kind::kOperation, operation, 0, 0, true};
}
inline Instruction does(scheduler::Access access) { return does(scheduler::Operation(access)); }
inline Instruction sleeps(scheduler::Access access) { return {Instruction::Kind::kSleep, access}; }
inline Instruction skip_if(std::int64_t value, std::size_t count) {
  return {Instruction::Kind::kSkipIf, {}, value, count};
}
inline Instruction back_if(std::int64_t value, std::size_t count) {
  return {Instruction::Kind::kBackIf, {}, value, count};
}
inline Instruction fail_if(std::int64_t value) { return {Instruction::Kind::kFailIf, {}, value, 0}; }
inline Instruction leaves(scheduler::ObjectId barrier) {
  return {Instruction::Kind::kLeave, scheduler::Access{barrier, 0}, 0, 0};
}

// Two files and a link to one of them: calls whose footprint depends on what others did before.
struct ScriptFiles {
  enum Call : std::int64_t { kRead, kWrite, kLink, kReadLinked, kWriteLinked };
  std::int64_t content[2] = {0, 0};
  std::int64_t linked = 0;
  // Does the call; its operation is told what it touched.
  void perform(scheduler::Operation& call);
};
// The file is of no matter to the calls that follow the link, the value to those that read.
scheduler::Operation file_call(ScriptFiles::Call call, std::int64_t file, std::int64_t value);

// What threads of a program do where signals come: a handler a signal, and the process's object.
struct ScriptSignals {
  scheduler::ObjectId process{};
  std::map<std::int64_t, Script> handlers;
};

// Where an actor runs (scheduler/primitives/host.h).
struct ScriptHost {
  scheduler::ObjectId host = scheduler::kNoHost;
  std::uint16_t incarnation = 0;
};

// An actor on its way through a script; a timer has none.
struct ScriptActor : scheduler::TimedActor {
  const Script* script = nullptr;
  std::size_t at = 0;
  std::int64_t last = 0;  // result
  bool is_arriving = true;
  std::map<std::uint64_t, std::uint32_t> stood;  // how often, by its own state
  std::uint64_t written = 0;
  ScriptHost host;

  // Where there are signals: its own object, what it blocks, and where it goes on after its handlers, the last of them
  // innermost.
  struct Frame {
    const Script* script;
    std::size_t at;
    std::int64_t last, mask;
  };
  const ScriptSignals* signals = nullptr;
  scheduler::ObjectId own_signals{};
  std::int64_t mask = 0;
  std::vector<Frame> frames;
};
// The object of an actor's rests.
inline scheduler::ObjectId rest_object(scheduler::ActorId actor) {
  return scheduler::make_object_id(scheduler::PrimitiveId::kSpin, 900 + index(actor));
}
// Sets what the actor stands before, past jumps; nothing at its end.
void find_pending(ScriptActor& actor);
// It has done what it stood before.
void go_on(ScriptActor& actor, const scheduler::Operation& done);

class ScriptProgram : public scheduler::Program {
 public:
  std::vector<scheduler::ObjectStart> objects;
  std::vector<Script> scripts;
  // Timers and the like: actors behind those of the scripts, each of which always stands before that operation.
  std::vector<scheduler::Operation> beside;
  bool has_loops = false;      // then an actor that comes round rests
  std::size_t steps_most = 0;  // more than an execution can hold; 0: no bound
  ScriptSignals signals;
  std::vector<scheduler::ObjectId> signals_of_threads;  // empty: there are no signals
  std::vector<ScriptHost> hosts;                        // of the scripts; empty: there are no hosts

  std::vector<ScriptActor> actors() const;
  scheduler::Execution run(const scheduler::RunRequest& request) override;
  // What the last run's actors saw, and how it ended.
  const std::string& outcome() const { return outcome_; }

 private:
  std::string outcome_;
};

// A search with so many workers, each with a copy of the program.
scheduler::SearchResult search_with(const ScriptProgram& program, const scheduler::SearchSetup& setup,
                                    std::size_t workers);

// Results of every actor in its order, the values of variables, how it ended and which actors were left.
std::string outcome_of(const scheduler::Execution& execution);

}  // namespace crashcut::tests
