#include "recovery/threads/check.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "recovery/threads/crashes.h"
#include "recovery/threads/joint_program.h"

namespace crashcut::recovery {
namespace {

using inprocess::Failure;
using scheduler::Execution;
using scheduler::runtime::Details;
using scheduler::runtime::FindingKind;
using scheduler::runtime::NameTable;
using scheduler::runtime::ToolError;

using Clock = std::chrono::steady_clock;

constexpr const char* kNotRepeatable =
    "The program is not repeatable: under the same schedule it did something else than before. Something that crashcut "
    "does not see decides what it does: a data race, an atomic variable that is not instrumented, a random number, the "
    "contents of a file.";

Failure failure_of(const ToolError& error) {
  return {error.is_users_fault ? Failure::Blame::kUser : Failure::Blame::kTool, error.sentence};
}

std::vector<scheduler::ActorId> schedule_of(const Execution& execution) {
  std::vector<scheduler::ActorId> schedule;
  for (const scheduler::Step& step : execution.steps) schedule.push_back(step.actor);
  return schedule;
}

bool is_same_finding(const Details& a, const Details& b) { return a.kind == b.kind && a.number == b.number && a.actor == b.actor && a.text == b.text; }

class Checker {
 public:
  Checker(const ThreadPlan& plan, const ThreadHooks& hooks) : plan_(plan), hooks_(hooks) {}

  // A futex shows that threads meet in atomic variables, which are not seen: what looked independent may not be, and
  // the search begins again without that claim.
  ThreadResult run() {
    ThreadResult result = run_once();
    if (!has_futex_) return result;
    result_ = {};
    executions_ = 0;
    is_opaque_ = true;
    crashes_.reset();
    return run_once();
  }

 private:
  ThreadResult run_once() {
    result_.is_opaque = is_opaque_;
    std::vector<std::unique_ptr<JointProgram>> programs;
    std::vector<scheduler::Program*> workers;
    for (std::uint32_t i = 0; i < plan_.jobs; ++i) {
      programs.push_back(std::make_unique<JointProgram>(plan_, names_, JointProgram::Setup{is_opaque_, false, false, plan_.merges_logs}));
      workers.push_back(programs.back().get());
    }
    result_.has_recover = programs[0]->session().has_recover();
    began_ = Clock::now();
    scheduler::SearchSetup setup;
    setup.reduction = plan_.reduction;
    setup.has_foresight = plan_.has_foresight;
    setup.bounds = plan_.bounds;
    setup.on_execution = [&](const Execution& execution) { return note(execution); };
    setup.on_progress = hooks_.on_progress;
    setup.stop = hooks_.stop;
    result_.search = scheduler::search(workers, setup);
    for (const auto& program : programs) {
      result_.restored += program->program().restored_count();
      result_.forked += program->program().forked_count();
    }
    if (crashes_) {
      result_.explored = crashes_->counts().explored;
      result_.merged = crashes_->counts().merged;
    }
    if (has_futex_ && !is_opaque_) return std::move(result_);
    if (result_.search.diverged) throw ToolError{true, kNotRepeatable};
    const bool is_bounded = result_.search.bound != scheduler::BoundHit::kNone || result_.crash_bound != Bound::kNone;
    const bool is_violated = result_.finding || result_.survey.violations() > 0;
    result_.verdict = is_violated ? ThreadVerdict::kViolation : is_bounded ? ThreadVerdict::kBounded : ThreadVerdict::kVerified;
    return std::move(result_);
  }

  bool note(const Execution& execution) {
    ++executions_;
    for (const scheduler::Step& s : execution.steps) result_.threads_most = std::max<std::uint64_t>(result_.threads_most, index(s.actor) + 1);
    if (!is_opaque_ && std::any_of(execution.steps.begin(), execution.steps.end(), is_futex)) {
      has_futex_ = true;
      return false;
    }
    const auto* details = dynamic_cast<const Details*>(execution.note.get());
    if (details == nullptr || details->kind == FindingKind::kNone) return !result_.has_recover || crash(execution);
    ++result_.violations;
    const bool is_better = !result_.finding || (result_.finding->details.kind == details->kind && execution.steps.size() < result_.finding->execution.steps.size());
    if (is_better) result_.finding = ThreadFinding{execution, *details, names_.actors(), executions_, false, {}, 0};
    return plan_.goes_on;
  }

  double seconds_left() const {
    if (plan_.bounds.time_most_s <= 0) return 0;
    const double used = std::chrono::duration<double>(Clock::now() - began_).count();
    return std::max(plan_.bounds.time_most_s - used, 0.001);
  }

  Hooks crash_hooks() {
    Hooks hooks;
    hooks.is_interrupted = [this] { return hooks_.stop != nullptr && hooks_.stop->load(); };
    return hooks;
  }

  // The states that a crash can leave of what the execution wrote. False where the search is to end.
  bool crash(const Execution& execution) {
    const std::uint64_t most = plan_.crash.max_recoveries;
    if (most != 0 && result_.survey.recoveries() >= most) {
      result_.crash_bound = Bound::kRecoveries;
      return false;
    }
    if (!crashes_) crashes_.emplace(plan_, names_, is_opaque_, crash_hooks());
    const auto found = crashes_->explore(execution, most == 0 ? 0 : most - result_.survey.recoveries(), seconds_left());
    if (!found) return true;
    result_.survey.add_all(found->survey);
    if (found->bound != Bound::kNone) result_.crash_bound = found->bound;
    if (found->verdict == Verdict::kViolation) note_crash(execution, *found);
    return found->bound == Bound::kNone && (found->verdict != Verdict::kViolation || plan_.goes_on);
  }

  void note_crash(const Execution& execution, const Result& found) {
    ++result_.violations;
    if (!found.counterexample) {
      result_.unexplained = found.unexplained;
      return;
    }
    const bool is_better = !result_.finding || (result_.finding->crash && execution.steps.size() < result_.finding->execution.steps.size());
    if (!is_better) return;
    Details details;
    if (const auto* known = dynamic_cast<const Details*>(execution.note.get())) details = *known;
    result_.finding = ThreadFinding{execution, details, names_.actors(), executions_, false, found.counterexample, found.execution.fingerprint};
  }

  static bool is_futex(const scheduler::Step& step) { return primitive_of(step.operation[0].object) == scheduler::PrimitiveId::kFutex; }

  const ThreadPlan& plan_;
  const ThreadHooks& hooks_;
  bool has_futex_ = false, is_opaque_ = false;
  NameTable names_;
  ThreadResult result_{};
  std::uint64_t executions_ = 0;
  std::optional<Crashes> crashes_;
  Clock::time_point began_;
};

}  // namespace

tl::expected<ThreadResult, Failure> check_threads(const ThreadPlan& plan, const ThreadHooks& hooks) try {
  ThreadResult result = Checker(plan, hooks).run();
  if (result.finding) {
    ThreadFinding& finding = *result.finding;
    const std::vector<scheduler::ActorId> schedule = schedule_of(finding.execution);
    if (finding.crash) {
      const auto again = replay_crash(plan, finding.actors, schedule, {finding.fingerprint, finding.crash->account.path}, false);
      finding.replays = again && again->crash->account.failure == finding.crash->account.failure;
      if (again) finding.details = again->details;  // in words, too
    } else {
      const auto again = replay_threads(plan, finding.actors, schedule, false);
      finding.replays = again && is_same_finding(again->details, finding.details);
      if (finding.replays) finding.details = again->details;
    }
  }
  return result;
} catch (const ToolError& error) {
  return tl::unexpected(failure_of(error));
}

namespace {

tl::expected<ThreadFinding, Failure> replay_schedule(JointProgram& program, const NameTable& names, const std::vector<scheduler::ActorId>& schedule) {
  scheduler::RunRequest request;
  request.prefix = schedule;
  ThreadFinding finding;
  finding.execution = program.run(request);
  finding.details = dynamic_cast<const Details&>(*finding.execution.note);
  finding.actors = names.actors();
  if (finding.execution.ending == scheduler::Ending::kDiverged) {
    return tl::unexpected(Failure{Failure::Blame::kUser, fmt::format("The replay diverged at step {}: the program did something else than when the token was made.", finding.execution.steps.size() + 1)});
  }
  return finding;
}

}  // namespace

tl::expected<ThreadFinding, Failure> replay_threads(const ThreadPlan& plan, const std::vector<scheduler::runtime::ActorName>& actors,
                                                    const std::vector<scheduler::ActorId>& schedule, bool is_loud) try {
  NameTable names;
  names.set_actors(actors);
  JointProgram program(plan, names, {false, is_loud, true, false});
  return replay_schedule(program, names, schedule);
} catch (const ToolError& error) {
  return tl::unexpected(failure_of(error));
}

tl::expected<ThreadFinding, Failure> replay_crash(const ThreadPlan& plan, const std::vector<scheduler::runtime::ActorName>& actors,
                                                  const std::vector<scheduler::ActorId>& schedule, const CrashReplay& crash, bool is_loud) try {
  NameTable names;
  names.set_actors(actors);
  JointProgram program(plan, names, {false, is_loud, true, false});
  auto finding = replay_schedule(program, names, schedule);
  if (!finding) return finding;
  program.session().read_execution();
  finding->fingerprint = program.session().execution().fingerprint;
  if (finding->fingerprint != crash.fingerprint) {
    return tl::unexpected(Failure{Failure::Blame::kUser, "The program wrote other things than when the token was made: it has changed since, or it depends on something outside the model. Run crashcut threads again."});
  }
  auto account = replay_recording(program.session(), crash.path);
  if (!account) return tl::unexpected(account.error());
  finding->crash = Counterexample{std::move(*account), false, true};
  return finding;
} catch (const ToolError& error) {
  return tl::unexpected(failure_of(error));
}

int exit_code(ThreadVerdict verdict) {
  switch (verdict) {
    case ThreadVerdict::kVerified: return 0;
    case ThreadVerdict::kViolation: return 1;
    case ThreadVerdict::kBounded: return 3;
  }
  return 4;
}

}  // namespace crashcut::recovery
