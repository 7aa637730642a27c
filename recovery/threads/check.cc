#include "recovery/threads/check.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

namespace crashcut::recovery {
namespace {

using inprocess::Failure;
using scheduler::Execution;
using scheduler::runtime::Details;
using scheduler::runtime::FindingKind;
using scheduler::runtime::NameTable;
using scheduler::runtime::RealProgram;
using scheduler::runtime::ToolError;

constexpr const char* kNotRepeatable =
    "The program is not repeatable: under the same schedule it did something else than before. Something that crashcut "
    "does not see decides what it does: a data race, an atomic variable that is not instrumented, a random number, the "
    "contents of a file.";

RealProgram::Setup setup_of(const ThreadPlan& plan) {
  RealProgram::Setup setup;
  setup.executable = plan.executable;
  setup.arguments = plan.arguments;
  setup.runtime = plan.runtime;
  setup.spurious_most = plan.spurious_most;
  setup.timeouts_most = plan.timeouts_most;
  setup.policies = plan.policies;
  setup.step_limit = std::chrono::nanoseconds(static_cast<std::int64_t>(plan.step_limit_s * 1e9));
  return setup;
}

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
    return run_once();
  }

 private:
  ThreadResult run_once() {
    RealProgram::Setup program_setup = setup_of(plan_);
    program_setup.is_opaque = result_.is_opaque = is_opaque_;
    std::vector<std::unique_ptr<RealProgram>> programs;
    std::vector<scheduler::Program*> workers;
    for (std::uint32_t i = 0; i < plan_.jobs; ++i) {
      programs.push_back(std::make_unique<RealProgram>(program_setup, names_));
      workers.push_back(programs.back().get());
    }
    scheduler::SearchSetup setup;
    setup.reduction = plan_.reduction;
    setup.has_foresight = plan_.has_foresight;
    setup.bounds = plan_.bounds;
    setup.on_execution = [&](const Execution& execution) { return note(execution); };
    setup.on_progress = hooks_.on_progress;
    setup.stop = hooks_.stop;
    result_.search = scheduler::search(workers, setup);
    for (const auto& program : programs) {
      result_.restored += program->restored_count();
      result_.forked += program->forked_count();
    }
    if (has_futex_ && !is_opaque_) return std::move(result_);
    if (result_.search.diverged) throw ToolError{true, kNotRepeatable};
    result_.verdict = result_.finding                                          ? ThreadVerdict::kViolation
                      : result_.search.bound != scheduler::BoundHit::kNone     ? ThreadVerdict::kBounded
                                                                               : ThreadVerdict::kVerified;
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
    if (details == nullptr || details->kind == FindingKind::kNone) return true;
    ++result_.violations;
    const bool is_better = !result_.finding || (result_.finding->details.kind == details->kind && execution.steps.size() < result_.finding->execution.steps.size());
    if (is_better) result_.finding = ThreadFinding{execution, *details, names_.actors(), executions_, false};
    return plan_.goes_on;
  }

  static bool is_futex(const scheduler::Step& step) { return primitive_of(step.operation[0].object) == scheduler::PrimitiveId::kFutex; }

  const ThreadPlan& plan_;
  const ThreadHooks& hooks_;
  bool has_futex_ = false, is_opaque_ = false;
  NameTable names_;
  ThreadResult result_{};
  std::uint64_t executions_ = 0;
};

}  // namespace

tl::expected<ThreadResult, Failure> check_threads(const ThreadPlan& plan, const ThreadHooks& hooks) try {
  ThreadResult result = Checker(plan, hooks).run();
  if (result.finding) {
    const auto again = replay_threads(plan, result.finding->actors, schedule_of(result.finding->execution), false);
    result.finding->replays = again && is_same_finding(again->details, result.finding->details);
  }
  return result;
} catch (const ToolError& error) {
  return tl::unexpected(failure_of(error));
}

tl::expected<ThreadFinding, Failure> replay_threads(const ThreadPlan& plan, const std::vector<scheduler::runtime::ActorName>& actors,
                                                    const std::vector<scheduler::ActorId>& schedule, bool is_loud) try {
  NameTable names;
  names.set_actors(actors);
  RealProgram::Setup setup = setup_of(plan);
  setup.is_loud = is_loud;
  setup.has_details = true;
  RealProgram program(setup, names);
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
