#include "recovery/threads/crashes.h"

#include "recovery/inprocess/front_end.h"
#include "recovery/run_token.h"

namespace crashcut::recovery {

using scheduler::runtime::ToolError;

Crashes::Crashes(const ThreadPlan& plan, scheduler::runtime::NameTable& names, const JointProgram::Setup& setup,
                 const search::Hooks& hooks)
    : plan_(plan), hooks_(hooks), program_(plan, names, setup) {
  if (plan.merges_logs) program_.session().observe();
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

std::optional<search::Found> Crashes::explore(const scheduler::Execution& execution, std::uint64_t recoveries_most,
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
  search::Plan plan = plan_.crash;
  plan.max_recoveries = recoveries_most;
  plan.time_limit = std::chrono::duration<double>(time_most_s);
  plan.wants_all = true;
  plan.samples = false;  // the budget is that of all executions
  inprocess::ProgramFrontEnd front_end(session, token_of("threads", plan_.crash));
  auto found = search::check(front_end, plan, hooks_);
  if (!found) throw ToolError{found.error().blame == result::Blame::kUser, found.error().sentence};
  const auto observed = session.take_observed();
  if (log != nullptr && observed && found->result.bound == result::Bound::kNone) seen_.add(*log, *observed);
  return std::move(*found);
}

}  // namespace crashcut::recovery
