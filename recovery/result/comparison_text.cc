// One program under several models, as tables.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "recovery/result/text.h"
#include "recovery/result/words.h"

namespace crashcut::result {
namespace {

constexpr std::size_t kLinesMost = 60;
constexpr std::size_t kOutcomeWidthMost = 60;

// What differs between the rows: the model without its geometry, where that is the same in all.
std::vector<std::string> names_of(const std::vector<Result>& rows) {
  std::vector<std::string> names;
  for (const Result& row : rows) {
    std::string name = row.head.model.text;
    if (const auto geometry = name.find(" sector="); geometry != std::string::npos) name.resize(geometry);
    names.push_back(std::move(name));
  }
  return names;
}

std::size_t widest(const std::vector<std::string>& texts, std::size_t at_least) {
  for (const std::string& text : texts) at_least = std::max(at_least, text.size());
  return at_least;
}

std::string counts_table(const std::vector<Result>& rows, const std::vector<std::string>& names) {
  const std::size_t width = widest(names, 5);
  std::string text = fmt::format("\n      {:<{}}  {:<9}  {:>10}  {:>8}  {:>10}\n", "model", width, "verdict",
                                 "recoveries", "outcomes", "violations");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::map<std::string, std::uint64_t> kinds;
    for (const Finding& finding : rows[i].findings) kinds[finding.kind] += finding.count;
    std::string of_these;
    for (const auto& [kind, count] : kinds)
      of_these += fmt::format("{}{} {}", of_these.empty() ? "  " : ", ", count, kind);
    text +=
        fmt::format("  ({}) {:<{}}  {:<9}  {:>10}  {:>8}  {:>10}{}\n", i + 1, names[i], width, to_text(rows[i].verdict),
                    rows[i].counts.recoveries, rows[i].outcomes.size(), rows[i].counts.violations, of_these);
  }
  return text;
}

// How many recoveries of each row gave an outcome, and how many of those failed.
using OutcomeRows = std::map<std::string, std::vector<Outcome>>;

OutcomeRows collect_outcomes(const std::vector<Result>& rows) {
  OutcomeRows outcomes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const Outcome& outcome : rows[i].outcomes) {
      auto& cells = outcomes[outcome.output];
      cells.resize(rows.size());
      cells[i] = outcome;
    }
  }
  return outcomes;
}

std::string cell_text(const Outcome& outcome) {
  if (outcome.recoveries == 0) return ".";
  return fmt::format("{}{}", outcome.violations > 0 ? "!" : "", outcome.recoveries);
}

// Those that are too long are cut, and numbered where that makes them alike.
std::vector<std::string> outcome_cells(const OutcomeRows& outcomes) {
  std::vector<std::string> outputs;
  for (const auto& [output, cells] : outcomes) outputs.push_back(output);
  std::vector<std::string> texts = texts_of(outputs, printable_outcome);
  std::map<std::string, int> counts;
  for (std::string& text : texts) {
    if (text.size() > kOutcomeWidthMost) text = text.substr(0, kOutcomeWidthMost - 3) + "...";
    if (const int number = ++counts[text]; number > 1) text += fmt::format(" ({})", number);
  }
  return texts;
}

// Columns are numbered: the names of models are longer than their cells.
std::string outcome_matrix(const std::vector<Result>& rows) {
  const OutcomeRows outcomes = collect_outcomes(rows);
  if (outcomes.empty()) return "";
  std::string text = "\n ";
  for (std::size_t i = 0; i < rows.size(); ++i) text += fmt::format(" {:>6}", fmt::format("({})", i + 1));
  text += "  outcome: how many recoveries gave it, ! where some of them violate, . where none gave it\n";
  const std::vector<std::string> texts = outcome_cells(outcomes);
  std::size_t line = 0;
  for (const auto& [output, cells] : outcomes) {
    if (line == kLinesMost) return text + fmt::format("  ... and {} more\n", outcomes.size() - kLinesMost);
    text += " ";
    for (const Outcome& cell : cells) text += fmt::format(" {:>6}", cell_text(cell));
    text += fmt::format("  {}\n", texts[line++]);
  }
  return text;
}

}  // namespace

std::string comparison_text(const std::vector<Result>& rows) {
  const std::vector<std::string> names = names_of(rows);
  std::string text = counts_table(rows, names) + outcome_matrix(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const NotRun& reason : rows[i].not_run)
      text += fmt::format("\n  Not run under {}: {} of {}\n", names[i],
                          count_text(reason.recoveries, "recovery", "recoveries"), printable(reason.sentence));
  }
  if (rows.empty()) return text + "\n";
  for (const std::string& sentence : rows[0].not_covered) text += fmt::format("\nnot covered: {}", sentence);
  return text + "\n";
}

std::string comparison_end_text(const std::vector<Result>& rows, std::size_t expected_count,
                                const std::string& crashcut) {
  std::uint64_t recoveries = 0;
  double seconds = 0;
  const Result* first = nullptr;
  for (const Result& row : rows) {
    recoveries += row.counts.recoveries;
    seconds += row.seconds;
    if (first == nullptr && row.verdict == Verdict::kViolation) first = &row;
  }
  const auto count = [&](Verdict verdict) {
    return std::count_if(rows.begin(), rows.end(), [&](const Result& row) { return row.verdict == verdict; });
  };
  const Verdict verdict = worst_of(rows, expected_count);
  const std::string which = verdict == Verdict::kViolation
                                ? fmt::format("under {} of {} models", count(Verdict::kViolation), expected_count)
                            : verdict == Verdict::kVerified
                                ? fmt::format("under all {} models", expected_count)
                                : fmt::format("{} of {} models verified", count(Verdict::kVerified), expected_count);
  std::string text = fmt::format("{}: {}; {}; {:.2f} s", to_text(verdict), which,
                                 count_text(recoveries, "recovery", "recoveries"), seconds);
  if (rows.size() < expected_count)
    text += fmt::format("; interrupted after {}", count_text(rows.size(), "model", "models"));
  if (first != nullptr && !first->token.empty())
    text += fmt::format("; replay the first: {} replay {}{}", crashcut, first->replay_options, first->token);
  // It goes on with all rows.
  if (!rows.empty() && !rows.front().resume.empty()) text += fmt::format("\nresume: {}", rows.front().resume);
  return text + "\n";
}

}  // namespace crashcut::result
