#include "recovery/compare_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "recovery/report.h"

namespace crashcut::recovery {
namespace {

constexpr std::size_t kOutcomesMost = 12;
constexpr std::size_t kOutcomeWidthMost = 40;

// What differs between the rows: the model without its geometry.
std::string model_name(const Plan& plan) {
  std::string name = fusefs::describe(plan.model);
  if (const auto geometry = name.find(" sector="); geometry != std::string::npos) name.resize(geometry);
  return name;
}

std::size_t widest(const std::vector<std::string>& texts, std::size_t at_least) {
  for (const std::string& text : texts) at_least = std::max(at_least, text.size());
  return at_least;
}

std::vector<std::string> names_of(const std::vector<Comparison>& rows) {
  std::vector<std::string> names;
  for (const Comparison& row : rows) names.push_back(model_name(row.plan));
  return names;
}

std::string counts_table(const std::vector<Comparison>& rows, const std::vector<std::string>& names) {
  const std::size_t width = widest(names, 5);
  std::string text = fmt::format("\n  {:<{}}  {:>8}  {:>10}  {:>10}  {}\n", "model", width, "outcomes", "violations",
                                 "recoveries", "verdict");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Survey& survey = rows[i].result.survey;
    text += fmt::format("  {:<{}}  {:>8}  {:>10}  {:>10}  {}\n", names[i], width, survey.outcomes().size(),
                        survey.violations(), survey.recoveries(), to_text(rows[i].result.verdict));
  }
  if (rows.empty()) return text;
  for (const std::string& sentence : not_covered(rows[0].result))
    text += fmt::format("\n  Not covered: {}\n", sentence);
  return text;
}

// How many recoveries of each row gave an outcome, and how many of those failed.
using OutcomeRows = std::map<std::string, std::vector<Survey::Tally>>;

OutcomeRows collect_outcomes(const std::vector<Comparison>& rows) {
  OutcomeRows outcomes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const auto& [outcome, tally] : rows[i].result.survey.outcomes()) {
      auto& tallies = outcomes[outcome];
      tallies.resize(rows.size());
      tallies[i] = tally;
    }
  }
  return outcomes;
}

std::string cell_text(const Survey::Tally& tally) {
  if (tally.recoveries == 0) return ".";
  return fmt::format("{}{}", tally.violations > 0 ? "!" : "", tally.recoveries);
}

// Those that are too long are cut, and numbered where that makes them alike.
std::vector<std::string> outcome_cells(const OutcomeRows& outcomes) {
  std::vector<std::string> outputs;
  for (const auto& [outcome, tallies] : outcomes) outputs.push_back(outcome);
  std::vector<std::string> texts = texts_of(outputs, printable_outcome);
  std::map<std::string, int> counts;
  for (std::string& text : texts) {
    if (text.size() > kOutcomeWidthMost) text = text.substr(0, kOutcomeWidthMost - 3) + "...";
    if (const int number = ++counts[text]; number > 1) text += fmt::format(" ({})", number);
  }
  return texts;
}

// Columns are numbered: the names of models are longer than their cells.
std::string outcome_matrix(const std::vector<Comparison>& rows, const std::vector<std::string>& names) {
  const OutcomeRows outcomes = collect_outcomes(rows);
  if (outcomes.empty() || outcomes.size() > kOutcomesMost) return "";
  const std::vector<std::string> texts = outcome_cells(outcomes);
  const std::size_t width = widest(texts, 7);
  std::string head = fmt::format("\n  {:<{}}", "outcome", width);
  for (std::size_t i = 0; i < rows.size(); ++i) head += fmt::format("  {:>6}", fmt::format("({})", i + 1));
  std::string body = head + "\n";
  std::size_t line = 0;
  for (const auto& [outcome, tallies] : outcomes) {
    body += fmt::format("  {:<{}}", texts[line++], width);
    for (const Survey::Tally& tally : tallies) body += fmt::format("  {:>6}", cell_text(tally));
    body += "\n";
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    body += fmt::format("{}  ({}) {}\n", i == 0 ? "\n" : "", i + 1, names[i]);
  return body + "  the number of recoveries that gave it; ! where some of them violate; . where none did\n";
}

}  // namespace

std::string report_comparison_start(const std::vector<std::string>& words, const Plan& plan, std::size_t plan_count) {
  std::string command = "crashcut compare";
  for (const std::string& word : words) command += " " + word;
  return fmt::format(
      "{} | {}, sector={} block={} | depth {}, {} | seed {}\n", printable(command),
      count_text(plan_count, "model", "models"), plan.model.sector_bytes, plan.model.block_bytes, plan.depth,
      plan.max_recoveries == 0 && plan.time_limit.count() == 0 ? "all recoveries" : "bounded", plan.seed);
}

std::string report_comparison(const std::vector<Comparison>& rows) {
  const std::vector<std::string> names = names_of(rows);
  std::string text = counts_table(rows, names) + outcome_matrix(rows, names);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string not_run = report_not_run(rows[i].result.survey);
    if (!not_run.empty()) text += fmt::format("\n  Under {}:\n{}", names[i], not_run);
  }
  return text + "\n";
}

std::string report_comparison_end(const std::vector<Comparison>& rows, std::size_t plan_count) {
  std::uint64_t recoveries = 0, violating = 0;
  const Comparison* first = nullptr;
  for (const Comparison& row : rows) {
    recoveries += row.result.survey.recoveries();
    if (row.result.verdict != Verdict::kViolation) continue;
    ++violating;
    if (first == nullptr) first = &row;
  }
  std::string text = fmt::format("{}: violations under {} of {} models, {}", to_text(verdict_of(rows, plan_count)),
                                 violating, plan_count, count_text(recoveries, "recovery", "recoveries"));
  if (rows.size() < plan_count) text += fmt::format("; interrupted, {} models not run", plan_count - rows.size());
  if (first != nullptr && !first->result.token.empty()) {
    text += fmt::format("; replay the first: {} replay {}", first->plan.crashcut, first->result.token);
  }
  return text + "\n";
}

Verdict verdict_of(const std::vector<Comparison>& rows, std::size_t plan_count) {
  auto has = [&](Verdict verdict) {
    return std::any_of(rows.begin(), rows.end(), [&](const Comparison& row) { return row.result.verdict == verdict; });
  };
  if (has(Verdict::kViolation)) return Verdict::kViolation;
  return has(Verdict::kBounded) || rows.size() < plan_count ? Verdict::kBounded : Verdict::kVerified;
}

}  // namespace crashcut::recovery
