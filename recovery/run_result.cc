#include "recovery/run_result.h"

#include <fmt/format.h>

#include "recovery/result/path.h"
#include "recovery/result/words.h"
#include "recovery/run_token.h"

namespace crashcut::recovery {
namespace {

using result::or_none;
using result::Setting;

std::string kind_text(inprocess::RecordKind kind) {
  switch (kind) {
    case inprocess::RecordKind::kOk:
      return "ok";
    case inprocess::RecordKind::kAssumedAway:
      return "assumed away";
    case inprocess::RecordKind::kExited:
      return "exit";
    case inprocess::RecordKind::kSignalled:
      return "signal";
    case inprocess::RecordKind::kHung:
      return "hang";
    case inprocess::RecordKind::kToolError:
      return "not run";
  }
  return "";
}

std::vector<Setting> bounds_of(const Plan& plan) {
  return {{"depth", std::uint64_t{plan.depth}, fmt::format("depth {}", plan.depth)},
          {"max_recoveries", or_none(plan.max_recoveries),
           plan.max_recoveries == 0 ? "all recoveries" : fmt::format("at most {} recoveries", plan.max_recoveries)},
          {"time_s", or_none(plan.time_limit.count()),
           plan.time_limit.count() > 0 ? fmt::format("at most {:g} s", plan.time_limit.count()) : ""},
          {"jobs", std::uint64_t{plan.jobs}, result::count_text(plan.jobs, "job", "jobs")},
          {"main_limit_s", static_cast<std::uint64_t>(plan.main_limit.count())},
          {"recovery_limit_s", static_cast<std::uint64_t>(plan.recovery_limit.count())}};
}

}  // namespace

result::Head head_of(const std::string& command, const Plan& plan, const std::vector<std::string>& words) {
  result::Head head;
  head.command = command;
  head.program = words;
  head.model = fusefs::spec_of(plan.model);
  head.settings = {{"from", plan.from_directory,
                    plan.from_directory.empty() ? "" : "disk from " + result::printable(plan.from_directory)}};
  head.bounds = bounds_of(plan);
  head.seed = plan.seed;
  return head;
}

result::Finding finding_of(const FailureKind& failure, std::uint64_t count) {
  return {kind_text(failure.kind), "recovery", to_text(failure), failure.message, failure.code, count};
}

result::Counterexample counterexample_of(const Counterexample& example) {
  result::Counterexample told;
  told.finding = finding_of(example.account.failure);
  told.sentence = told.finding.text;
  told.story = example.account.story;
  told.path = result::path_text(example.account.path);
  told.is_smallest = example.is_smallest;
  told.replays = example.replays;
  return told;
}

void add_survey(const Survey& survey, result::Result& result) {
  result.counts.recoveries = survey.recoveries();
  result.counts.assumed_away = survey.assumed_away();
  result.counts.not_run = survey.tool_errors();
  for (const auto& [output, tally] : survey.outcomes())
    result.outcomes.push_back({output, tally.recoveries, tally.violations});
  for (const auto& [sentence, not_run] : survey.not_run()) result.not_run.push_back({sentence, not_run.recoveries});
}

result::Result result_of(const Plan& plan, const result::Head& head, const Checked& checked) {
  result::Result result;
  result.head = head;
  const std::uint64_t threads = checked.execution.threads_begun + 1;
  result.execution = {{"threads", threads}, {"fingerprint", fmt::format("{:016x}", checked.execution.fingerprint)}};
  result.verdict = checked.verdict;
  result.bound = checked.bound;
  result.explored_fraction = checked.explored_fraction;
  result.seconds = checked.seconds;
  add_survey(checked.survey, result);
  result.counts.violations = checked.survey.violations();
  result.counts.operations = checked.execution.op_count;
  result.counts.events = checked.execution.event_count;
  result.subjects = {"recovery"};
  for (const auto& [failure, count] : checked.survey.failures()) result.findings.push_back(finding_of(failure, count));
  if (threads > 1) {
    result.not_covered = {fmt::format("Other interleavings of its {} threads: crashcut threads tries them.", threads)};
    result.scope = fmt::format(" for one interleaving of {} threads (crashcut threads tries the others)", threads);
  }
  if (checked.counterexample) result.counterexample = counterexample_of(*checked.counterexample);
  result.unexplained = checked.unexplained;
  result.token = checked.token;
  result.replay_options = replay_options(plan);
  return result;
}

}  // namespace crashcut::recovery
