#include "recovery/mounted/compare_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "recovery/report.h"

namespace crashcut::mounted {
namespace {

using recovery::Verdict;

constexpr std::size_t kOutcomesMost = 60;

std::size_t width_of(const std::vector<Comparison>& rows) {
  std::size_t width = 5;
  for (const Comparison& row : rows) width = std::max(width, fusefs::describe(row.plan.model).size());
  return width;
}

// Which model gives which outcome: a column a model, in the order of the rows.
std::string outcome_table(const std::vector<Comparison>& rows) {
  std::map<std::string, std::vector<OutcomeCount>> outcomes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const auto& [outcome, count] : rows[i].result.explored.tally.outcomes) {
      auto& counts = outcomes[outcome];
      counts.resize(rows.size());
      counts[i] = count;
    }
  }
  std::string text = "\n ";
  for (std::size_t i = 0; i < rows.size(); ++i) text += fmt::format(" {:>6}", fmt::format("({})", i + 1));
  text += "  outcome, ! where it violates\n";
  std::size_t shown = 0;
  for (const auto& [outcome, counts] : outcomes) {
    if (shown++ == kOutcomesMost) return text + fmt::format("  ... and {} more\n", outcomes.size() - kOutcomesMost);
    text += " ";
    for (const OutcomeCount& count : counts) {
      text += fmt::format(" {:>6}", count.recoveries == 0
                                        ? "-"
                                        : fmt::format("{}{}", count.violations > 0 ? "!" : "", count.recoveries));
    }
    text += fmt::format("  {}\n", outcome.empty() ? "(no output)" : recovery::printable(outcome));
  }
  return text;
}

}  // namespace

std::string report_comparison(const std::vector<Comparison>& rows) {
  const std::size_t width = width_of(rows);
  std::string text = fmt::format("\n      {:<{}}  {:<9} {:>10} {:>6} {:>11} {:>6}\n", "model", width, "verdict",
                                 "recoveries", "lost", "not durable", "other");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Tally& tally = rows[i].result.explored.tally;
    const std::uint64_t lost = tally.count(Finding::kLost), not_durable = tally.count(Finding::kNotDurable);
    text += fmt::format("  ({}) {:<{}}  {:<9} {:>10} {:>6} {:>11} {:>6}\n", i + 1, fusefs::describe(rows[i].plan.model),
                        width, recovery::to_text(rows[i].result.verdict), tally.recoveries, lost, not_durable,
                        tally.violations - lost - not_durable);
  }
  return text + outcome_table(rows);
}

recovery::Verdict verdict_of(const std::vector<Comparison>& rows, std::size_t model_count) {
  const auto has = [&](Verdict verdict) {
    return std::any_of(rows.begin(), rows.end(), [&](const Comparison& row) { return row.result.verdict == verdict; });
  };
  if (has(Verdict::kViolation)) return Verdict::kViolation;
  return rows.size() < model_count || has(Verdict::kBounded) ? Verdict::kBounded : Verdict::kVerified;
}

std::string report_comparison_end(const std::vector<Comparison>& rows, std::size_t model_count) {
  std::uint64_t recoveries = 0;
  double seconds = 0;
  for (const Comparison& row : rows) {
    recoveries += row.result.explored.tally.recoveries;
    seconds += row.result.explored.seconds;
  }
  const auto failing = std::count_if(rows.begin(), rows.end(),
                                     [](const Comparison& row) { return row.result.verdict == Verdict::kViolation; });
  const auto verified = std::count_if(rows.begin(), rows.end(),
                                      [](const Comparison& row) { return row.result.verdict == Verdict::kVerified; });
  const Verdict verdict = verdict_of(rows, model_count);
  const std::string which = verdict == Verdict::kViolation ? fmt::format("under {} of {} models", failing, model_count)
                            : verdict == Verdict::kVerified
                                ? fmt::format("under all {} models", model_count)
                                : fmt::format("{} of {} models verified", verified, model_count);
  std::string text = fmt::format("\n{}: {}; {}; {:.2f} s", recovery::to_text(verdict), which,
                                 recovery::count_text(recoveries, "recovery", "recoveries"), seconds);
  if (rows.size() < model_count)
    text += fmt::format("; interrupted after {}", recovery::count_text(rows.size(), "model", "models"));
  return text + "\n";
}

}  // namespace crashcut::mounted
