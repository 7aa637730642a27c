#include "recovery/threads/knowledge.h"

#include <algorithm>

namespace crashcut::recovery {

using scheduler::Execution;
using scheduler::runtime::Details;

Knowledge::Knowledge(const ThreadPlan& plan, const ThreadRest* rest)
    : plan_(plan), is_opaque_(plan.traps && plan.has_memory_steps()) {
  if (rest == nullptr) return;
  is_opaque_ = rest->is_opaque;
  is_instrumented_ = rest->is_instrumented;
  racy_ = rest->racy;
  names_.set_actors(rest->actors);
  names_.set_racy(racy_);
}

bool Knowledge::learn(const Execution& execution, const std::vector<std::unique_ptr<JointProgram>>& programs,
                      std::uint64_t number) {
  const auto is_instrumented = [](const auto& program) {
    return program->has_begun() && program->program().is_instrumented();
  };
  if (!is_instrumented_ && std::any_of(programs.begin(), programs.end(), is_instrumented))
    return is_instrumented_ = true;
  // A futex shows that threads meet in atomic variables, and so does a thread that runs on until another has taken a
  // step. Where these are not seen, what looked independent may not be.
  const auto is_opaque = [](const scheduler::Step& step) { return step.operation.is_opaque(); };
  if (!plan_.models_memory() && !is_opaque_ && std::any_of(execution.steps.begin(), execution.steps.end(), is_opaque))
    return is_opaque_ = true;
  // Under a model of memory, accesses that race are steps, and no violation.
  const bool follows_races = plan_.wants_all || plan_.has_memory_steps();
  if (!follows_races || names_.racy().size() == racy_.size()) return false;
  if (plan_.has_memory_steps()) {
    racy_ = names_.racy();
    return true;
  }
  if (const auto* details = dynamic_cast<const Details*>(execution.note.get()); !race_ && details != nullptr)
    race_ = finding_of(execution, *details, number);
  racy_ = names_.racy();
  return true;
}

JointProgram::Setup Knowledge::setup(std::function<bool()> is_late) const {
  return {
      .is_opaque = is_opaque_, .racy_count = static_cast<std::uint32_t>(racy_.size()), .is_late = std::move(is_late)};
}

ThreadFinding Knowledge::finding_of(const Execution& execution, const Details& details, std::uint64_t number) const {
  ThreadFinding finding;
  finding.execution = execution;
  finding.details = details;
  finding.actors = names_.actors();
  finding.number = number;
  finding.racy = racy_;
  finding.ignores_result = plan_.ignores_result;
  finding.seed = plan_.seed;
  return finding;
}

}  // namespace crashcut::recovery
