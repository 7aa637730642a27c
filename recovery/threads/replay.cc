#include "recovery/threads/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "recovery/inprocess/front_end.h"
#include "recovery/memory_notes.h"
#include "recovery/run_token.h"
#include "recovery/search/check.h"
#include "recovery/source/names.h"
#include "recovery/threads/joint_program.h"
#include "recovery/threads/main_result.h"
#include "scheduler/deepening.h"

namespace crashcut::recovery {
namespace {

using result::Failure;
using scheduler::Ending;
using scheduler::runtime::Details;
using scheduler::runtime::FindingKind;
using scheduler::runtime::NameTable;
using scheduler::runtime::ToolError;

tl::unexpected<Failure> failed(const ToolError& error) {
  return tl::unexpected(Failure{error.is_users_fault ? result::Blame::kUser : result::Blame::kTool, error.sentence});
}

// A program of its own, with the names of the schedule.
struct Replayer {
  NameTable names;
  std::optional<JointProgram> program;

  Replayer(const ThreadPlan& plan, const Schedule& schedule, JointProgram::Setup setup) {
    names.set_actors(schedule.actors);
    names.set_racy(schedule.racy);
    setup.has_details = true;
    setup.racy_count = static_cast<std::uint32_t>(schedule.racy.size());
    program.emplace(plan, names, setup);
  }
};

// The recovery that the path names, of what the program has just written.
tl::expected<void, Failure> recover(const ThreadPlan& plan, JointProgram& program, const CrashReplay& crash,
                                    ThreadFinding& finding) {
  program.session().read_execution();
  finding.fingerprint = program.session().execution().fingerprint;
  if (finding.fingerprint != crash.fingerprint) {
    return result::wrong_use(
        "The program wrote other things than when the token was made: it has changed since, or it depends on something "
        "outside the model. Run crashcut threads again.");
  }
  result::Token token = token_of("threads", plan);
  token.fingerprint = crash.fingerprint;
  token.path = crash.path;
  inprocess::ProgramFrontEnd front_end(program.session(), token);
  auto replayed = search::replay(front_end, token, 0);
  if (!replayed) return tl::unexpected(replayed.error());
  finding.crash = std::move(replayed->told);
  finding.crash_path = crash.path;
  finding.is_crash_violation = replayed->is_violation;
  return {};
}

Schedule schedule_of(const ThreadFinding& finding) {
  return {finding.actors, finding.racy, recovery::schedule_of(finding.execution)};
}

// What a recovery failed with, as far as it is the same in every run.
auto failure_of(const ThreadFinding& finding) {
  const result::Finding& failure = finding.crash->finding;
  return std::tie(failure.kind, failure.code, failure.message);
}

bool is_same_finding(const Details& a, const Details& b) {
  return a.race.has_value() == b.race.has_value() && a.kind == b.kind && a.number == b.number && a.actor == b.actor &&
         a.text == b.text;
}

}  // namespace

std::vector<scheduler::ActorId> schedule_of(const scheduler::Execution& execution) {
  std::vector<scheduler::ActorId> schedule;
  for (const scheduler::Step& step : execution.steps) schedule.push_back(step.actor);
  return schedule;
}

tl::expected<ThreadFinding, Failure> replay_threads(const ThreadPlan& plan, const Schedule& schedule,
                                                    const std::optional<CrashReplay>& crash,
                                                    const ReplaySetup& setup) try {
  Replayer replayer(plan, schedule,
                    {.is_loud = setup.is_loud, .is_known_to_hang = setup.is_known_to_hang, .is_late = setup.is_late});
  JointProgram& program = *replayer.program;
  scheduler::RunRequest request;
  request.prefix = schedule.steps;
  request.ends_with_prefix = true;
  ThreadFinding finding;
  finding.execution = program.run(request);
  if (finding.execution.ending == Ending::kStopped) throw scheduler::runtime::OutOfTime();
  finding.details = dynamic_cast<const Details&>(*finding.execution.note);
  if (setup.is_loud) {  // it was seen
    finding.details.output.clear();
    finding.details.errors.clear();
  }
  finding.actors = replayer.names.actors();
  finding.racy = replayer.names.racy();
  finding.is_instrumented = program.program().is_instrumented();
  if (finding.execution.ending == Ending::kDiverged) {
    return result::wrong_use(
        fmt::format("The replay diverged at step {}: the program did something else than when the token was made.",
                    finding.execution.steps.size() + 1));
  }
  if (!crash) return finding;
  if (auto recovered = recover(plan, program, *crash, finding); !recovered) return tl::unexpected(recovered.error());
  finding.is_loosened = program.program().is_instrumented() && plan.reduction != scheduler::ReductionName::kNone;
  return finding;
} catch (const ToolError& error) {
  return failed(error);
}

void replay_all(const ThreadPlan& plan, const KeptExecutions& kept, const std::function<bool()>& is_late,
                const std::function<void(const ThreadFinding&)>& on_told) try {
  Replayer replayer(plan, {kept.actors, kept.racy, {}}, {.is_late = is_late});
  for (const std::vector<scheduler::ActorId>& schedule : kept.schedules) {
    if (is_late()) return;
    scheduler::RunRequest request;
    request.prefix = schedule;
    request.ends_with_prefix = true;
    ThreadFinding finding;
    finding.execution = replayer.program->run(request);
    if (finding.execution.ending == Ending::kStopped) return;
    const auto* details = dynamic_cast<const Details*>(finding.execution.note.get());
    if (details == nullptr || finding.execution.steps.size() != schedule.size()) continue;
    finding.details = *details;
    finding.actors = replayer.names.actors();
    on_told(finding);
  }
} catch (const ToolError&) {
}

tl::expected<void, Failure> hold_threads(const ThreadPlan& plan, const Schedule& schedule, std::uint32_t step,
                                         const std::function<void(int process)>& on_held) try {
  Replayer replayer(plan, schedule, {.is_loud = true, .stop_at_step = step});
  scheduler::RunRequest request;
  request.prefix = schedule.steps;
  const int process = replayer.program->run_held(request);
  if (process == 0) return result::wrong_use(fmt::format("The program did not come to step {}.", step));
  on_held(process);
  return {};
} catch (const ToolError& error) {
  return failed(error);
}

tl::expected<bool, Failure> hold_recovery(const ThreadPlan& plan, const Schedule& schedule, const CrashReplay& crash,
                                          std::uint32_t answers, const std::function<void(int process)>& on_held) try {
  ThreadPlan patient = plan;
  patient.recovery_limit = std::chrono::hours(24 * 365);  // a person looks at it
  Replayer replayer(patient, schedule,
                    {.is_loud = true, .hold_answer = inprocess::kHoldsAtBegin + answers, .on_held = on_held});
  scheduler::RunRequest request;
  request.prefix = schedule.steps;
  request.ends_with_prefix = true;
  replayer.program->run(request);
  inprocess::Session& session = replayer.program->session();
  session.read_execution();
  return session.hold(crash.path);
} catch (const ToolError& error) {
  return failed(error);
}

void replay_finding(const ThreadPlan& plan, const std::function<bool()>& is_late, ThreadFinding& finding) {
  ReplaySetup setup{.is_known_to_hang = finding.details.kind == FindingKind::kNoProgress, .is_late = is_late};
  std::optional<CrashReplay> crash;
  // A recovery that hangs is not waited for once more: it was run again when it was told.
  const bool hangs = finding.crash && finding.crash->finding.kind == "hang";
  if (finding.crash && !hangs) crash = CrashReplay{finding.fingerprint, finding.crash_path};
  const auto again = replay_threads(plan, schedule_of(finding), crash, setup);
  if (!again && is_late()) return;
  finding.was_run_again = true;
  if (hangs) {
    finding.replays = again && finding.crash->replays;
  } else if (finding.crash) {
    finding.replays = again && failure_of(*again) == failure_of(finding);
  } else {
    finding.replays = again && is_same_finding(again->details, finding.details);
  }
  if (!again || !(finding.crash || finding.replays)) return;
  // In words, too. Objects have other numbers there.
  finding.details = again->details;
  finding.execution.objects = again->execution.objects;
  finding.execution.steps = again->execution.steps;
  finding.execution.pending = again->execution.pending;
}

void add_missing_flush(const ThreadPlan& plan, const std::function<bool()>& is_over, ThreadFinding& finding) try {
  const bool is_looked_for = plan.memory && !plan.has_store_buffers && finding.crash && finding.replays && !is_over();
  if (!is_looked_for) return;
  Replayer replayer(plan, schedule_of(finding), {.is_late = is_over});
  JointProgram& program = *replayer.program;
  const auto run = [&]() -> tl::expected<void, Failure> {
    scheduler::RunRequest request;
    request.prefix = recovery::schedule_of(finding.execution);
    request.ends_with_prefix = true;
    const scheduler::Execution again = program.run(request);
    if (again.ending == Ending::kStopped) throw scheduler::runtime::OutOfTime();
    program.session().read_execution();
    program.session().begin_again();
    return {};
  };
  if (auto ok = run(); !ok) return;
  const inprocess::FlushSearch flushes{
      .session = program.session(),
      .prefixes = nullptr,
      .path = finding.crash_path,
      .is_slow = false,
      .max_recoveries = plan.max_recoveries,
      .is_over = is_over,
      .record_again = run,
  };
  source::Names names(is_over);
  add_missing_flush(flushes, names, *finding.crash);
} catch (const ToolError&) {
}

void follow_race(const ThreadPlan& plan, const std::function<bool()>& is_late, ThreadFinding& finding) try {
  ThreadPlan impatient = plan;
  impatient.step_limit_s = std::min(plan.step_limit_s, 1.0);  // a thread that hangs then is no news
  Replayer replayer(impatient, {finding.actors, {}, {}}, {.is_late = is_late});
  scheduler::RunRequest request;
  request.prefix = recovery::schedule_of(finding.execution);
  request.goes_on_after_race = true;
  request.turn_most = scheduler::kTurn;
  const scheduler::Execution execution = replayer.program->run(request);
  const auto* details = dynamic_cast<const Details*>(execution.note.get());
  const bool has_failed = details != nullptr && details->race && details->kind != FindingKind::kRace &&
                          details->kind != FindingKind::kNoProgress;
  if (!has_failed || execution.ending == Ending::kDiverged || execution.ending == Ending::kTooLong) return;
  finding.execution = execution;
  finding.details = *details;
  finding.actors = replayer.names.actors();
} catch (const ToolError&) {
}

bool is_meaningless_result(const ThreadPlan& plan, const std::function<bool()>& is_late, ThreadFinding finding) {
  if (finding.crash || finding.details.kind != FindingKind::kExitCode || !finding.details.is_result) return false;
  if (plan.machines.empty() &&
      has_no_result(plan.executable, finding.details.main_at - finding.details.program_base, is_late))
    return true;
  replay_finding(plan, is_late, finding);
  return finding.was_run_again && !finding.replays;
}

}  // namespace crashcut::recovery
