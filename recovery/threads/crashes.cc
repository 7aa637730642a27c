#include "recovery/threads/crashes.h"

#include "recovery/inprocess/front_end.h"
#include "recovery/run_token.h"

namespace crashcut::recovery {

using result::Bound;
using scheduler::Execution;
using scheduler::runtime::OutOfTime;
using scheduler::runtime::ToolError;

const char* const kNotRepeatable =
    "The program is not repeatable: under the same schedule it did something else than before. Something that crashcut "
    "does not see decides what it does: a data race, an atomic variable that is not instrumented, the contents of a "
    "file.";

Crashes::Crashes(const ThreadPlan& plan, Knowledge& knowledge, const persist::Deadline& deadline, Findings& findings,
                 ThreadResult& result)
    : plan_(plan), knowledge_(knowledge), deadline_(deadline), findings_(findings), result_(result) {}

static void run_again(JointProgram& program, const Execution& execution) {
  scheduler::RunRequest request;
  request.prefix = schedule_of(execution);
  request.ends_with_prefix = true;
  Execution again = program.run(request);
  if (again.ending == scheduler::Ending::kStopped) throw OutOfTime();
  if (again.ending == execution.ending && again.steps.size() == execution.steps.size()) return;
  throw NotRepeatable{
      {true, "The program is not repeatable: under the same schedule it did something else than before."},
      execution,
      again};
}

std::optional<search::Found> Crashes::recover(const Execution& execution) {
  if (!program_) {
    program_.emplace(plan_, knowledge_.names(), knowledge_.setup([this] { return deadline_.is_past_telling(); }));
    if (plan_.merges_logs) program_->session().observe();
  }
  const auto* note = dynamic_cast<const JointNote*>(execution.note.get());
  const LogDigest* log = plan_.merges_logs && note != nullptr && note->log ? &*note->log : nullptr;
  if (log != nullptr && seen_.has(*log)) {
    ++result_.merged;
    return std::nullopt;
  }
  ++result_.explored;
  run_again(*program_, execution);
  inprocess::Session& session = program_->session();
  session.read_execution();
  session.begin_again();
  search::Plan plan = plan_;
  if (plan.max_recoveries != 0) plan.max_recoveries -= result_.tally.recoveries;
  plan.time_limit = std::chrono::duration<double>(deadline_.seconds_left());
  plan.wants_all = true;
  plan.wants_states = false;
  plan.samples = false;  // the budget is that of all executions
  search::Hooks hooks;
  hooks.is_interrupted = [this] { return deadline_.is_over(); };
  inprocess::ProgramFrontEnd front_end(session, token_of(token_command_of(plan_), plan_));
  auto found = search::check(front_end, plan, hooks);
  if (!found) throw ToolError{found.error().blame == result::Blame::kUser, found.error().sentence};
  // A page has the states of one execution: the one with the violation.
  if (plan_.wants_states && found->result.counterexample && !result_.finding && !deadline_.is_over()) {
    plan.wants_states = true;
    session.begin_again();
    inprocess::ProgramFrontEnd same(session, token_of(token_command_of(plan_), plan_));
    if (auto again = search::check(same, plan, hooks)) found->result.states = std::move(again->result.states);
  }
  result_.has_threaded_recoveries = result_.has_threaded_recoveries || session.has_threaded_recoveries();
  if (plan_.notes != 0) {
    auto notes = read_notes(session, names_);
    if (!notes) throw ToolError{false, notes.error().sentence};
    result_.notes.add(std::move(*notes));
  }
  const auto observed = session.take_observed();
  if (log != nullptr && observed && found->result.bound == Bound::kNone) seen_.add(*log, *observed);
  return std::move(*found);
}

bool Crashes::stop_at(const std::vector<scheduler::ActorId>& schedule, Bound bound) {
  result_.crash_bound = bound;
  unexplored_ = schedule;
  return false;
}

bool Crashes::explore(const Execution& execution) {
  const std::uint64_t most = plan_.max_recoveries;
  if (most != 0 && result_.tally.recoveries >= most) return stop_at(schedule_of(execution), Bound::kRecoveries);
  std::optional<search::Found> found;
  try {
    found = recover(execution);
  } catch (const OutOfTime&) {
    return stop_at(schedule_of(execution), deadline_.hit());
  }
  if (!found) return true;
  if (found->result.bound != Bound::kNone) before_part_ = result_.tally;
  result_.tally.add(found->tally);
  const bool is_violation = found->result.verdict == result::Verdict::kViolation;
  if (is_violation) findings_.note_crash(execution, *found);
  const Bound bound = found->result.bound;
  if (bound == Bound::kNone) return !is_violation || plan_.wants_all;
  // An end by time is an interruption there, too.
  return stop_at(schedule_of(execution), bound == Bound::kInterrupt ? deadline_.hit() : bound);
}

bool Crashes::go_on(JointProgram& program, const std::vector<scheduler::ActorId>& schedule) {
  if (schedule.empty()) return true;
  scheduler::RunRequest request;
  request.prefix = schedule;
  request.ends_with_prefix = true;
  const Execution execution = program.run(request);
  if (execution.ending == scheduler::Ending::kStopped) return stop_at(schedule, deadline_.hit());
  if (execution.steps.size() != schedule.size()) throw ToolError{true, kNotRepeatable};
  return explore(execution);
}

}  // namespace crashcut::recovery
