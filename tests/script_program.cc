#include "tests/script_program.h"

#include <map>

#include "scheduler/primitives/barrier.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/process.h"

namespace crashcut::tests {

using namespace scheduler;

namespace {

struct Actor {
  const Script* script;
  std::size_t at = 0;
  std::int64_t last = 0;
};

// The operation that the actor stands before, past jumps; false at its end.
bool next_operation(Actor& actor, Operation& operation) {
  while (actor.at < actor.script->size()) {
    const Instruction& i = (*actor.script)[actor.at];
    switch (i.kind) {
      case Instruction::Kind::kOperation: operation = i.operation; return true;
      case Instruction::Kind::kLeave: operation = barrier::access(i.operation[0].object, barrier::kLeave, actor.last); return true;
      case Instruction::Kind::kSkipIf: actor.at += actor.last == i.value ? i.count + 1 : 1; break;
      case Instruction::Kind::kFailIf:
        if (actor.last == i.value) {
          operation = process::fail(i.value);
          return true;
        }
        ++actor.at;
        break;
    }
  }
  return false;
}

}  // namespace

Execution ScriptProgram::run(const RunRequest& request) {
  Execution execution;
  execution.objects = objects;
  State state(objects);
  Director director(request);
  std::vector<Actor> actors;
  for (const Script& script : scripts) actors.push_back({&script});
  while (true) {
    execution.pending.clear();
    for (std::size_t i = 0; i < actors.size(); ++i) {
      Operation operation;
      if (next_operation(actors[i], operation) && is_live(state, operation)) execution.pending.push_back({static_cast<ActorId>(i), operation});
    }
    const auto chosen = director.choose(state, execution.pending);
    if (!chosen) break;
    for (const Pending& p : execution.pending) {
      if (p.actor != *chosen) continue;
      Step step{p.actor, p.operation};
      state.apply(step);
      director.note(step, state);
      Actor& actor = actors[index(p.actor)];
      actor.last = step.operation.result();
      ++actor.at;
      execution.steps.push_back(step);
    }
  }
  execution.ending = director.ending();
  execution.hit_depth = director.hit_depth();
  outcome_ = outcome_of(execution);
  return execution;
}

std::string outcome_of(const Execution& execution) {
  std::map<ActorId, std::string> seen;
  State state(execution.objects);
  for (const Step& step : execution.steps) {
    Operation operation = step.operation;
    // A load's result says only that nothing changed.
    for (const Access& a : operation) {
      if (primitive_of(a.object) == PrimitiveId::kMemory) seen[step.actor] += std::to_string(memory::value_in(state.object(a.object).a, a)) + "/";
    }
    state.apply(step.actor, operation);
    seen[step.actor] += to_text(step.operation) + "=" + std::to_string(step.operation.result()) + ";";
  }
  std::string text = "ending " + std::to_string(static_cast<int>(execution.ending)) + "\n";
  for (const auto& [actor, log] : seen) text += std::to_string(index(actor)) + " " + log + "\n";
  for (const Pending& p : execution.pending) text += "left " + std::to_string(index(p.actor)) + " " + to_text(p.operation) + "\n";
  for (const ObjectStart& start : execution.objects) {
    const Object& o = state.object(start.object);
    if (primitive_of(start.object) == PrimitiveId::kVariable || primitive_of(start.object) == PrimitiveId::kMemory || primitive_of(start.object) == PrimitiveId::kSemaphore) {
      text += std::to_string(index(start.object)) + "=" + std::to_string(o.a) + " ";
    }
  }
  return text;
}

}  // namespace crashcut::tests
