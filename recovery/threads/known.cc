#include "recovery/threads/known.h"

#include "recovery/threads/result.h"
#include "recovery/threads/token.h"

namespace crashcut::recovery {
namespace {

// Whether this plan would have made the token, of the same program or of another version of it.
bool fits(const ThreadPlan& plan, const result::Token& token, const ThreadToken& known) {
  ThreadToken ours = known;
  ours.plan = plan;
  ours.plan.ignores_result = known.plan.ignores_result;
  auto own = result::decode(encode(ours));
  if (!own) return false;
  own->program_id = token.program_id;
  return result::encode(*own) == result::encode(token);
}

bool is_violation(const ThreadFinding& finding) {
  return finding.crash ? finding.is_crash_violation : finding.details.kind != scheduler::runtime::FindingKind::kNone;
}

ThreadResult result_with(const ThreadFinding& finding, double seconds) {
  ThreadResult result;
  result.verdict = result::Verdict::kViolation;
  result.search.executions = 1;
  result.search.transitions = finding.execution.steps.size();
  result.search.seconds = seconds;
  result.search.bound = result::Bound::kEnoughFound;
  result.search.fraction = 0;
  result.violations = 1;
  result.ignores_result = finding.ignores_result;
  result.is_instrumented = finding.is_instrumented;
  result.has_recover = finding.crash.has_value();
  if (finding.crash) {
    result.explored = 1;
    result.tally.recoveries = result.tally.violations = 1;
  }
  result.finding = finding;
  for (const std::string& text : finding_texts(finding)) result.kinds.push_back({text, finding, 1});
  return result;
}

}  // namespace

std::optional<ThreadResult> try_known(const ThreadPlan& plan, const std::vector<result::Token>& tokens,
                                      const persist::Deadline& deadline) {
  const double share_s = plan.time_limit.count() / 2;
  const auto is_late = [&] { return deadline.is_over(); };
  for (const result::Token& token : tokens) {
    if (is_late() || (share_s > 0 && deadline.seconds() >= share_s)) break;
    if (token.command != "threads") continue;
    const auto known = read_thread_token(token);
    if (!known || !fits(plan, token, *known)) continue;
    ThreadPlan again = plan;
    again.ignores_result = known->plan.ignores_result;
    auto finding = replay_threads(again, known->schedule, known->recovery, {.is_late = is_late});
    // A failure to follow the schedule is no news: the program has changed.
    if (!finding || fingerprint_of(*finding) != known->fingerprint || !is_violation(*finding)) continue;
    finding->number = 1;
    finding->ignores_result = again.ignores_result;
    finding->was_run_again = finding->replays = true;
    return result_with(*finding, deadline.seconds());
  }
  return std::nullopt;
}

}  // namespace crashcut::recovery
