#include "recovery/threads/crashes.h"

namespace crashcut::recovery {

using scheduler::runtime::ToolError;

Crashes::Crashes(const ThreadPlan& plan, scheduler::runtime::NameTable& names, const JointProgram::Setup& setup,
                 const Hooks& hooks)
    : plan_(plan), hooks_(hooks), program_(plan, names, setup) {
  if (plan.merges_logs) program_.session().observe();
  hooks_.on_progress = [this](const result::Progress&) {
    if (hooks_.is_interrupted && hooks_.is_interrupted()) program_.session().stop();
  };
}

scheduler::Execution run_again(JointProgram& program, const scheduler::Execution& execution) {
  scheduler::RunRequest request;
  for (const scheduler::Step& step : execution.steps) request.prefix.push_back(step.actor);
  request.ends_with_prefix = true;
  scheduler::Execution again = program.run(request);
  if (again.ending == scheduler::Ending::kStopped) throw scheduler::runtime::OutOfTime();
  const bool is_same = again.ending == execution.ending && again.steps.size() == execution.steps.size();
  if (is_same) return again;
  throw NotRepeatable{
      {true, "The program is not repeatable: under the same schedule it did something else than before."},
      execution,
      again};
}

std::optional<Checked> Crashes::explore(const scheduler::Execution& execution, std::uint64_t recoveries_most,
                                        double time_most_s) {
  const auto* note = dynamic_cast<const JointNote*>(execution.note.get());
  const LogDigest* log = plan_.merges_logs && note != nullptr && note->log ? &*note->log : nullptr;
  if (log != nullptr && seen_.has(*log)) {
    ++counts_.merged;
    return std::nullopt;
  }
  ++counts_.explored;
  run_again(program_, execution);
  inprocess::Session& session = program_.session();
  session.read_execution();
  session.begin_again();
  session.set_limits(recoveries_most, 0);
  Plan plan = plan_.crash;
  plan.max_recoveries = recoveries_most;
  plan.time_limit = std::chrono::duration<double>(time_most_s);
  auto result = check_recording(session, plan, hooks_);
  if (!result) throw ToolError{result.error().blame == result::Blame::kUser, result.error().sentence};
  const auto observed = session.take_observed();
  if (log != nullptr && observed && result->bound == result::Bound::kNone) seen_.add(*log, *observed);
  return std::move(*result);
}

}  // namespace crashcut::recovery
