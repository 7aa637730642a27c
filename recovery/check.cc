#include "recovery/check.h"

#include <fmt/format.h>

#include <chrono>

#include "recovery/minimise.h"
#include "recovery/read_story.h"
#include "recovery/result/words.h"
#include "recovery/run_token.h"

namespace crashcut::recovery {
namespace {

using inprocess::ExecutionKind;
using inprocess::Session;
using result::Failure;
using Clock = std::chrono::steady_clock;

// A complete exploration needs no minimising, see minimise.h; there it only confirms.
constexpr std::chrono::seconds kMinimiseLimit{10};
constexpr std::chrono::seconds kConfirmLimit{1};
// Of --time, where main() took nearly all: a limit of nothing would be none.
constexpr std::chrono::duration<double> kLeastTime{0.001};

// A session that the caller knows of for as long as it lives.
class Running {
 public:
  Running(std::unique_ptr<Session> session, const Hooks& hooks) : session_(std::move(session)), hooks_(hooks) {
    if (hooks_.on_session) hooks_.on_session(session_.get());
  }
  Running(const Running&) = delete;
  ~Running() {
    if (hooks_.on_session) hooks_.on_session(nullptr);
  }
  Session& operator*() { return *session_; }
  Session* operator->() { return session_.get(); }

 private:
  std::unique_ptr<Session> session_;
  const Hooks& hooks_;
};

bool is_time_shorter_than_main(const Plan& plan) {
  return plan.time_limit.count() > 0 && plan.time_limit < plan.main_limit;
}

Session::Setup setup_of(const Plan& plan, const Hooks& hooks) {
  Session::Setup setup;
  setup.program = plan.executable;
  setup.arguments = plan.arguments;
  setup.runtime = plan.runtime;
  setup.model = plan.model;
  setup.from_directory = plan.from_directory;
  setup.depth = plan.depth;
  setup.jobs = plan.jobs;
  setup.seed = plan.seed;
  setup.max_recoveries = plan.max_recoveries;
  setup.main_limit = plan.main_limit;
  if (is_time_shorter_than_main(plan)) {
    setup.main_limit = std::chrono::duration_cast<std::chrono::nanoseconds>(plan.time_limit);
  }
  setup.recovery_limit = plan.recovery_limit;
  if (plan.memory_limit > 0) setup.memory_bytes_most = plan.memory_limit / 2;  // recoveries need some too
  setup.stdout_fd = hooks.stdout_fd;
  setup.stderr_fd = hooks.stderr_fd;
  return setup;
}

// Crashing a program that fails by itself would explain nothing.
tl::expected<void, Failure> check_execution(const inprocess::Execution& execution, const Plan& plan) {
  const std::string_view kItself = "The program itself failed, before any crash was tried: main()";
  switch (execution.kind) {
    case ExecutionKind::kEnded:
      if (execution.exit_code == 0) return {};
      return tl::unexpected(
          result::users_failure(fmt::format("{} ended with status {}.", kItself, execution.exit_code)));
    case ExecutionKind::kKilled:
      return tl::unexpected(
          result::users_failure(fmt::format("{} was killed by {}.", kItself, result::signal_text(execution.signal))));
    case ExecutionKind::kHung:
      return tl::unexpected(result::users_failure(fmt::format("{} did not end within the limit of {} (--main-limit).",
                                                              kItself, result::seconds_text(plan.main_limit))));
    case ExecutionKind::kToolError:
      return tl::unexpected(Failure{execution.blame, execution.sentence});
    case ExecutionKind::kRunning:
      break;
  }
  return tl::unexpected(result::tools_failure("The runtime did not say how main() ended."));
}

tl::expected<std::unique_ptr<Session>, Failure> start(const Plan& plan, const Hooks& hooks) {
  auto session = Session::start(setup_of(plan, hooks));
  if (!session) return session;
  if (auto ended = check_execution((*session)->execution(), plan); !ended) return tl::unexpected(ended.error());
  return session;
}

// All recoveries, into result.survey; says which bound ended it.
tl::expected<void, Failure> survey_all(Session& session, const Plan& plan, const Hooks& hooks, Checked& result) {
  const auto begin = Clock::now();
  bool is_late = false;
  auto on_idle = [&] {
    const std::chrono::duration<double> elapsed = Clock::now() - begin;
    if (plan.time_limit.count() > 0 && elapsed >= plan.time_limit) {
      is_late = true;
      session.stop();
    } else if (hooks.on_progress) {
      result::Progress progress;
      progress.seconds = elapsed.count();
      progress.recoveries = session.recoveries();
      progress.violations = session.violations();
      progress.fraction = session.explored_fraction();
      hooks.on_progress(progress);
    }
  };
  auto done = session.explore(
      {}, [&](const inprocess::Recovery& r) { result.survey.add(r); }, on_idle);
  if (!done) return tl::unexpected(done.error());
  result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const bool is_incomplete = result.survey.tool_errors() > 0;
  if (!session.bounded() && !is_incomplete) return {};
  result.explored_fraction = session.explored_fraction();
  const bool interrupted = hooks.is_interrupted && hooks.is_interrupted();
  result.bound = interrupted     ? result::Bound::kInterrupt
                 : is_late       ? result::Bound::kTime
                 : is_incomplete ? result::Bound::kNotRun
                                 : result::Bound::kRecoveries;
  return {};
}

tl::expected<Account, Failure> tell(const inprocess::SingleRun& run, std::string_view description) {
  auto story = read_story(description, run.trace);
  if (!story) return tl::unexpected(result::tools_failure(story.error()));
  if (run.recovery.kind == inprocess::RecordKind::kToolError) {
    return tl::unexpected(Failure{run.recovery.blame, run.text});
  }
  inprocess::Recovery recovery = run.recovery;
  recovery.errors = run.errors;
  story->output = run.output;
  story->errors = run.errors;
  story->output_cut = recovery.output_cut;
  story->errors_cut = recovery.errors_cut;
  return Account{failure_of(recovery), std::move(*story), recovery.path};
}

tl::expected<Account, Failure> replay_in(Session& session, const std::vector<std::uint32_t>& path,
                                         std::string_view description) {
  const auto run = session.replay(path);
  if (!run) return tl::unexpected(run.error());
  if (run->diverged) {
    return tl::unexpected(result::users_failure(
        "Recovery did not ask for the same things as when this violation was found: it has changed since, or it "
        "depends on something outside the model (time, random numbers, threads). Run crashcut run again."));
  }
  auto account = tell(*run, description);
  if (account) account->path = path;
  return account;
}

tl::expected<Counterexample, Failure> explain(Session& session, const Checked& result, const Hooks& hooks) {
  const Survey::Violation& violation = *result.survey.smallest();
  const bool complete = result.bound == result::Bound::kNone;
  auto description = session.describe();
  if (!description) return tl::unexpected(description.error());
  const auto deadline = Clock::now() + (complete ? kConfirmLimit : kMinimiseLimit);
  const MinimiseLimit limit{deadline, hooks.is_interrupted};
  // Each look at one that hangs takes all of its time limit.
  const bool skip = violation.failure.kind == inprocess::RecordKind::kHung;
  const tl::expected<Minimised, Failure> small =
      skip ? Minimised{violation.path, false} : minimise(session, violation, *description, limit);
  if (!small) return tl::unexpected(small.error());
  auto account = replay_in(session, small->path, *description);
  if (!account) return tl::unexpected(account.error());
  const bool replays =
      account->failure.kind == violation.failure.kind && account->failure.code == violation.failure.code;
  // What was found is what is said, though this time it came out otherwise.
  if (!replays) account->failure = violation.failure;
  return Counterexample{std::move(*account), replays && (small->finished || complete), replays};
}

// Of several reasons one of ours is the one to tell: nothing that the user changes would help.
Failure failure_of_tool(const Survey& survey) {
  for (const auto& [sentence, not_run] : survey.not_run()) {
    if (not_run.blame == result::Blame::kTool) return result::tools_failure(sentence);
  }
  return result::users_failure(survey.not_run().begin()->first);
}

result::Verdict verdict_of(const Checked& result) {
  if (result.survey.violations() > 0) return result::Verdict::kViolation;
  return result.bound == result::Bound::kNone ? result::Verdict::kVerified : result::Verdict::kBounded;
}

}  // namespace

tl::expected<Checked, Failure> check_recording(Session& session, const Plan& plan, const Hooks& hooks) {
  Checked result;
  result.execution = session.execution();
  if (result.execution.op_count > 0) --result.execution.op_count;  // the first is the starting state
  if (auto done = survey_all(session, plan, hooks, result); !done) return tl::unexpected(done.error());
  result.verdict = verdict_of(result);
  if (result.verdict != result::Verdict::kViolation && result.survey.tool_errors() > 0) {
    return tl::unexpected(failure_of_tool(result.survey));
  }
  if (result.verdict == result::Verdict::kViolation) {
    session.set_limits(0, 0);
    auto counterexample = explain(session, result, hooks);
    if (!counterexample) {
      result.unexplained = counterexample.error().sentence;
      return result;
    }
    result.counterexample = std::move(*counterexample);
  }
  return result;
}

tl::expected<Account, Failure> replay_recording(Session& session, const std::vector<std::uint32_t>& path) {
  auto description = session.describe();
  if (!description) return tl::unexpected(description.error());
  return replay_in(session, path, *description);
}

tl::expected<Checked, Failure> check(const Plan& plan, const Hooks& hooks) {
  const auto begin = Clock::now();
  auto started = Session::start(setup_of(plan, hooks));
  if (!started) return tl::unexpected(started.error());
  const std::chrono::duration<double> used = Clock::now() - begin;
  const inprocess::Execution& execution = (*started)->execution();
  if (execution.kind == ExecutionKind::kHung && is_time_shorter_than_main(plan)) {
    Checked result;
    result.verdict = result::Verdict::kBounded;
    result.bound = result::Bound::kTimeInProgram;
    result.explored_fraction = 0;
    result.seconds = used.count();
    return result;
  }
  if (auto ended = check_execution(execution, plan); !ended) return tl::unexpected(ended.error());
  Running session(std::move(*started), hooks);
  Plan rest = plan;
  if (plan.time_limit.count() > 0) rest.time_limit = std::max(plan.time_limit - used, kLeastTime);
  auto result = check_recording(*session, rest, hooks);
  if (result && result->counterexample) {
    result->token = result::encode(token_of(plan, result->execution.fingerprint, result->counterexample->account.path));
  }
  return result;
}

tl::expected<Account, Failure> replay(const Plan& plan, std::uint64_t fingerprint,
                                      const std::vector<std::uint32_t>& path, const Hooks& hooks) {
  auto started = start(plan, hooks);
  if (!started) return tl::unexpected(started.error());
  Running session(std::move(*started), hooks);
  if (session->execution().fingerprint != fingerprint) {
    return tl::unexpected(result::users_failure(
        "The program does not do what it did when this token was made: it has changed since, or it depends on "
        "something outside the model (time, random numbers, its input). Run crashcut run again."));
  }
  return replay_recording(*session, path);
}

}  // namespace crashcut::recovery
