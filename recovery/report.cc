#include "recovery/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace crashcut::recovery {
namespace {

std::string_view bound_text(Bound bound) {
  switch (bound) {
    case Bound::kNone:
      return "";
    case Bound::kRecoveries:
      return "--max-recoveries hit";
    case Bound::kTime:
      return "--time hit";
    case Bound::kTimeInMain:
      return "--time hit before main() had ended";
    case Bound::kInterrupt:
      return "interrupted";
    case Bound::kNotRun:
      return "ended by a recovery that could not be run";
  }
  return "";
}

// "; --time hit after about 12% of the whole"
std::string coverage_text(const Result& result) {
  if (result.bound == Bound::kNone) return "";
  if (result.bound == Bound::kTimeInMain) return fmt::format("; {}", bound_text(result.bound));
  return fmt::format("; {} after an estimated {} of the whole", bound_text(result.bound),
                     percent_text(result.explored_fraction));
}

std::string other_failures(const Survey& survey) {
  if (survey.failures().size() < 2) return "";
  constexpr std::size_t kMost = 8;
  std::string text = fmt::format("\n  All {} ways to fail, and how many recoveries did:\n\n", survey.failures().size());
  std::size_t shown = 0;
  for (const auto& [failure, count] : survey.failures()) {
    if (shown++ == kMost) {
      text += fmt::format("    ... and {} more\n", survey.failures().size() - kMost);
      break;
    }
    const std::string message = failure.message.empty() ? "" : ": " + printable(failure.message);
    text += fmt::format("    {:>6}  {}{}\n", count, to_text(failure), message);
  }
  return text;
}

}  // namespace

std::string report_start(std::string_view command, const Plan& plan) {
  const std::string from =
      plan.from_directory.empty() ? "" : fmt::format(" | disk from {}", printable(plan.from_directory));
  return fmt::format("{} | {}{} | {} | seed {}\n", printable(command), fusefs::describe(plan.model), from,
                     bounds_text(plan.depth, plan.max_recoveries, plan.time_limit, plan.jobs), plan.seed);
}

std::string bounds_text(std::uint64_t depth, std::uint64_t max_recoveries, std::chrono::duration<double> time_limit,
                        std::uint64_t jobs) {
  std::string text = fmt::format("depth {}", depth);
  text += max_recoveries == 0 ? ", all recoveries" : fmt::format(", at most {} recoveries", max_recoveries);
  if (time_limit.count() > 0) text += fmt::format(", at most {:g} s", time_limit.count());
  return text + fmt::format(", {}", count_text(jobs, "job", "jobs"));
}

std::string report_replay_start(const Plan& plan) {
  std::string command = "crashcut replay: " + plan.program;
  for (const std::string& argument : plan.arguments) command += " " + argument;
  return fmt::format("{} | {} | depth {}, one recovery | seed {}\n", printable(command), fusefs::describe(plan.model),
                     plan.depth, plan.seed);
}

std::string report_violation(const Result& result) {
  const std::string not_run = report_not_run(result.survey);
  if (!result.counterexample) return fmt::format("\nNo counterexample is shown: {}\n{}", result.unexplained, not_run);
  const Counterexample& example = *result.counterexample;
  std::string text = fmt::format("\nviolation: {}\n", to_text(example.account.failure));
  text += report_account(example.account, Detail::kShort);
  if (!example.is_smallest) text += "\n  The search did not end, so there may be a smaller cut that fails.\n";
  if (!example.replays) {
    text += "\n  Run again, this recovery ended in another way: it depends on something outside the model.\n";
  }
  return text + other_failures(result.survey) + not_run;
}

std::string report_not_run(const Survey& survey) {
  if (survey.tool_errors() == 0) return "";
  std::string text = "\n  Not run, and why:\n\n";
  for (const auto& [sentence, not_run] : survey.not_run()) {
    text += fmt::format("    {:>6}  {}\n", not_run.recoveries, printable(sentence));
  }
  return text;
}

std::string report_outcomes(const Survey& survey) {
  std::string text = "\nOutcomes:\n";
  std::uint64_t total = 0;
  std::vector<std::string> outputs;
  for (const auto& [output, tally] : survey.outcomes()) outputs.push_back(output);
  const std::vector<std::string> texts = texts_of(outputs, printable_outcome);
  auto outcome = texts.begin();
  for (const auto& [output, tally] : survey.outcomes()) {
    total += tally.recoveries;
    const bool some = tally.violations > 0 && tally.violations < tally.recoveries;
    text += fmt::format("{} {:>8}  {}{}\n", tally.violations > 0 ? '!' : ' ', tally.recoveries, *outcome++,
                        some ? fmt::format("  ({} of them violate)", tally.violations) : "");
  }
  return text + fmt::format("  {:>8}  total, {}\n", total,
                            count_text(survey.outcomes().size(), "distinct outcome", "distinct outcomes"));
}

std::vector<std::string> not_covered(const Result& result) {
  if (result.execution.threads_begun == 0) return {};
  return {fmt::format("Other interleavings of its {} threads: crashcut threads tries them.",
                      result.execution.threads_begun + 1)};
}

// What the verdict is about, where that is not the whole program.
static std::string scope_text(const Result& result) {
  if (result.execution.threads_begun == 0 || result.verdict == Verdict::kViolation) return "";
  return fmt::format(" for one interleaving of {} threads (crashcut threads tries the others)",
                     result.execution.threads_begun + 1);
}

std::string report_end(const Plan& plan, const Result& result) {
  const Survey& survey = result.survey;
  std::string text = fmt::format("{}{}: ", to_text(result.verdict), scope_text(result));
  const std::string recoveries = count_text(survey.recoveries(), "recovery", "recoveries");
  if (result.verdict == Verdict::kViolation) {
    text += fmt::format("{} of {} failed, in {}", survey.violations(), recoveries,
                        count_text(survey.failures().size(), "way", "ways"));
  } else {
    text += fmt::format("{}{}, none failed",
                        result.verdict == Verdict::kVerified && survey.recoveries() > 1 ? "all " : "", recoveries);
  }
  if (survey.assumed_away() > 0) text += fmt::format(" ({} assumed away)", survey.assumed_away());
  if (survey.tool_errors() > 0) text += fmt::format(" ({} could not be run)", survey.tool_errors());
  text += fmt::format("; {}, {}", count_text(result.execution.op_count, "operation", "operations"),
                      count_text(result.execution.event_count, "event", "events"));
  text += fmt::format("; {:.2f} s{}", result.seconds, coverage_text(result));
  if (!result.token.empty()) text += fmt::format("; replay: {} replay {}", plan.crashcut, result.token);
  return text + "\n";
}

std::string percent_text(double fraction) {
  constexpr double kLeast = 1e-6;
  if (fraction < kLeast) return "less than 0.0001%";
  if (fraction < 0.0995) return fmt::format("{:.2g}%", 100 * fraction);
  return fmt::format("{:.0f}%", std::min(99.0, 100 * fraction));  // all of it is said otherwise
}

std::string printable_outcome(const std::string& output) {
  const std::string text = outcome_text(output);
  return text.empty() ? "(no output)" : printable(text);
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f)
      out += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\0')
      out += "\\0";
    else
      out += fmt::format("\\x{:02x}", byte);
  }
  return out;
}

std::string count_text(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace crashcut::recovery
