#include "tests/script_program.h"

#include <algorithm>
#include <utility>

#include "scheduler/primitives/barrier.h"
#include "scheduler/primitives/file.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/process.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/signal.h"

namespace crashcut::tests {

using namespace scheduler;

void find_pending(ScriptActor& actor) {
  actor.has_pending = actor.is_sleeping = false;
  while (!actor.has_pending && actor.at < actor.script->size()) {
    const Instruction& i = (*actor.script)[actor.at];
    switch (i.kind) {
      case Instruction::Kind::kSleep:
      case Instruction::Kind::kOperation:
        actor.pending = i.operation;
        break;
      case Instruction::Kind::kLeave:
        actor.pending = barrier::access(i.operation[0].object, barrier::kLeave, actor.last);
        break;
      case Instruction::Kind::kSkipIf:
        actor.at += actor.last == i.value ? i.count + 1 : 1;
        continue;
      case Instruction::Kind::kBackIf:
        actor.at = actor.last == i.value ? actor.at - i.count : actor.at + 1;
        continue;
      case Instruction::Kind::kFailIf:
        if (actor.last != i.value) {
          ++actor.at;
          continue;
        }
        actor.pending = process::fail(i.value);
        break;
    }
    actor.has_pending = true;
    actor.is_sleeping = i.kind == Instruction::Kind::kSleep;
  }
  // After a handler what it blocked is not blocked any more, but by those around it.
  if (!actor.has_pending && !actor.frames.empty()) {
    actor.pending = signal::about(actor.signals->process, signal::kSetMask, index(actor.id), actor.frames.back().mask);
    actor.has_pending = true;
  }
  // Every step of a thread's may be the one before which a signal comes.
  const auto is_own = [](const Access& a) {
    return primitive_of(a.object) == PrimitiveId::kSignal && a.verb >= signal::kPass;
  };
  if (actor.has_pending && actor.signals != nullptr && std::none_of(actor.pending.begin(), actor.pending.end(), is_own))
    actor.pending.add({actor.own_signals, signal::kPass});
  if (actor.has_pending) actor.pending.set_host(actor.host.host, actor.host.incarnation);
}

// The signal that the step took for its thread; 0: none.
static std::int64_t signal_taken_by(const Operation& done) {
  if (done.is_interrupted()) return done[done.size() - 1].result & 0xff;
  for (const Access& a : done) {
    if (primitive_of(a.object) == PrimitiveId::kSignal && (a.verb == signal::kSend || a.verb == signal::kSetMask))
      return a.result & 0xff;
  }
  return 0;
}

void go_on(ScriptActor& actor, const Operation& done) {
  const bool is_end_of_handler = actor.at >= actor.script->size();
  if (!done.is_interrupted()) {
    for (const Access& a : done) {
      if (primitive_of(a.object) != PrimitiveId::kSignal) continue;
      if (a.verb == signal::kSetMask || a.verb == signal::kLeave) actor.mask = a.argument;
    }
    if (is_end_of_handler) {
      const ScriptActor::Frame& frame = actor.frames.back();
      actor.script = frame.script;
      actor.at = frame.at;
      actor.last = frame.last;
      actor.frames.pop_back();
    } else {
      actor.last = done.result();
      ++actor.at;
    }
  } else if (!is_end_of_handler && (*actor.script)[actor.at].fails_by_signal) {
    actor.last = kNotDone;
    ++actor.at;
  }
  const std::int64_t taken = actor.signals == nullptr ? 0 : signal_taken_by(done);
  if (taken == 0) return;
  actor.frames.push_back({actor.script, actor.at, actor.last, actor.mask});
  static const Script kNothing;
  const auto handler = actor.signals->handlers.find(taken);
  actor.script = handler == actor.signals->handlers.end() ? &kNothing : &handler->second;
  actor.at = 0;
}

std::vector<ScriptActor> ScriptProgram::actors() const {
  std::vector<ScriptActor> all(scripts.size() + beside.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].id = static_cast<ActorId>(i);
    if (i < scripts.size()) {
      all[i].script = &scripts[i];
      if (i < hosts.size()) all[i].host = hosts[i];
      if (i < signals_of_threads.size()) {
        all[i].signals = &signals;
        all[i].own_signals = signals_of_threads[i];
      }
      continue;
    }
    all[i].is_timer = true;
    all[i].pending = beside[i - scripts.size()];
    all[i].has_pending = true;
  }
  return all;
}

// Loops of the runtime's programs are looked at where they lock or try.
static bool may_come_round(const Operation& operation) {
  const std::uint8_t verb = operation[0].verb;
  const PrimitiveId primitive = primitive_of(operation[0].object);
  return (primitive == PrimitiveId::kMutex && (verb == mutex::kLock || verb == mutex::kTryLock)) ||
         (primitive == PrimitiveId::kSemaphore && (verb == semaphore::kWait || verb == semaphore::kTryWait));
}

// Whether an actor that comes to its next operation has come round. As in the runtime, what it wrote is not known the
// first time.
static void arrive(ScriptActor& actor, Rounds& rounds, const Execution& execution) {
  if (!std::exchange(actor.is_arriving, false) || !actor.has_pending || !may_come_round(actor.pending)) return;
  const std::uint64_t local = actor.at * 1'000'003 + static_cast<std::uint64_t>(actor.last);
  if (++actor.stood[local] <= 2) ++actor.written;
  actor.is_resting =
      rounds.stand(actor.id, local, actor.written, execution.objects, execution.steps) == Rounds::Standing::kAgain;
}

Operation file_call(ScriptFiles::Call call, std::int64_t file, std::int64_t value) {
  return Access{file::kCalls, file::kCall, call * 100 + file * 10 + value};
}

void ScriptFiles::perform(Operation& call) {
  constexpr std::uint64_t kLinkKey = 0, kContentKey = 1;
  Access& access = *call.begin();
  const std::int64_t what = access.argument / 100, value = access.argument % 10;
  Footprint footprint;
  const auto touch = [&](std::uint64_t key, bool writes) { footprint.push_back({key, 0, 1, writes, true}); };
  std::int64_t number = access.argument / 10 % 10;
  if (what >= kLink) touch(kLinkKey, what == kLink);
  if (what == kLink) {
    linked = number;
  } else {
    if (what >= kReadLinked) number = linked;
    const bool writes = what == kWrite || what == kWriteLinked;
    touch(kContentKey + static_cast<std::uint64_t>(number), writes);
    access.observed = writes ? 0 : content[number];
    if (writes) content[number] = value;
  }
  call.set_footprint(interned(std::move(footprint)));
}

// As the runtime does it (scheduler/runtime/world.cc).
Execution ScriptProgram::run(const RunRequest& request) {
  Execution execution;
  execution.objects = objects;
  State state(objects);
  Director director(request);
  Rounds rounds;
  const auto fingerprint = [&] { return rounds.fingerprint(state); };
  std::vector<ScriptActor> all = actors();
  ScriptFiles files;
  std::vector<TimedActor*> timed;
  for (ScriptActor& actor : all) timed.push_back(&actor);
  while (true) {
    for (ScriptActor& actor : all) {
      if (actor.is_timer) continue;
      find_pending(actor);
      actor.has_pending = actor.has_pending && is_live(state, actor.pending);
      if (has_loops) arrive(actor, rounds, execution);
      if (actor.is_resting) actor.pending = spin::access(rest_object(actor.id), spin::kRest);
    }
    let_time_pass(state, timed, fingerprint);
    execution.pending.clear();
    for (const ScriptActor& actor : all) {
      if (actor.has_pending) execution.pending.push_back({actor.id, actor.pending});
    }
    const bool is_too_long = steps_most != 0 && execution.steps.size() >= steps_most;
    const auto chosen = is_too_long ? std::nullopt : director.choose(state, execution.pending);
    execution.ending = is_too_long ? Ending::kTooLong : director.ending();
    if (!chosen) break;
    ScriptActor& actor = all[index(*chosen)];
    Step step{actor.id, actor.pending};
    if (actor.is_resting) actor.rested_at.push_back(fingerprint());
    rounds.note_before(state, step.operation);
    if (is_file_call(step.operation)) files.perform(step.operation);
    state.apply(step);
    rounds.note(step);
    director.note(step, state);
    execution.steps.push_back(step);
    if (actor.is_timer) continue;
    if (std::exchange(actor.is_resting, false)) continue;
    actor.is_arriving = true;
    go_on(actor, step.operation);
  }
  execution.passed_over = director.passed_over();
  execution.hit_depth = director.hit_depth();
  outcome_ = outcome_of(execution);
  return execution;
}

SearchResult search_with(const ScriptProgram& program, const SearchSetup& setup, std::size_t workers) {
  std::vector<ScriptProgram> copies(workers, program);
  std::vector<Program*> programs;
  for (ScriptProgram& copy : copies) programs.push_back(&copy);
  return search(programs, setup);
}

std::string outcome_of(const Execution& execution) {
  std::map<ActorId, std::string> seen;
  State state(execution.objects);
  for (const Step& step : execution.steps) {
    Operation operation = step.operation;
    // A load's result says only that nothing changed.
    for (const Access& a : operation) {
      if (primitive_of(a.object) == PrimitiveId::kMemory)
        seen[step.actor] += std::to_string(memory::value_in(memory::content(state.object(a.object)), a)) + "/";
    }
    state.apply(step.actor, operation);
    seen[step.actor] += to_text(step.operation) + "=" + std::to_string(step.operation.result()) + ";";
  }
  std::string text = "ending " + std::to_string(static_cast<int>(execution.ending)) + "\n";
  for (const auto& [actor, log] : seen) text += std::to_string(index(actor)) + " " + log + "\n";
  for (const Pending& p : execution.pending)
    text += "left " + std::to_string(index(p.actor)) + " " + to_text(p.operation) + "\n";
  for (const ObjectStart& start : execution.objects) {
    const Object& o = state.object(start.object);
    if (primitive_of(start.object) == PrimitiveId::kVariable || primitive_of(start.object) == PrimitiveId::kMemory ||
        primitive_of(start.object) == PrimitiveId::kSemaphore) {
      text += std::to_string(index(start.object)) + "=" + std::to_string(o.numbers[0]) + " ";
    }
  }
  return text;
}

}  // namespace crashcut::tests
