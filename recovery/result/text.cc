#include "recovery/result/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "recovery/result/words.h"

namespace crashcut::result {
namespace {

// Of lines that are wrapped.
constexpr std::size_t kWrapAt = 116;
constexpr std::size_t kFindingsMost = 20;

std::string settings_text(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings) {
    if (!setting.text.empty()) text += (text.empty() ? "" : ", ") + setting.text;
  }
  return text;
}

// "deadlock", "lost: notes.txt is empty"
std::string finding_text(const Finding& finding) {
  std::string text = finding.text == finding.kind ? finding.kind : fmt::format("{}: {}", finding.kind, finding.text);
  if (!finding.message.empty()) text += ": " + finding.message;
  return printable(text);
}

std::string findings_text(const Result& result) {
  if (result.findings.size() < 2) return "";
  const bool has_tokens = !result.findings.front().token.empty();
  const std::string_view units = result.counts.executions > 0 ? "executions"
                                 : result.counts_images       ? "images"
                                                              : "recoveries";
  std::string text = fmt::format("\n  All kinds of violation, and how many {} had them:\n\n", units);
  for (std::size_t i = 0; i < result.findings.size() && i < kFindingsMost; ++i) {
    const Finding& finding = result.findings[i];
    text += fmt::format("    {:>6}  {}\n", finding.count, finding_text(finding));
    if (has_tokens) text += fmt::format("            {}\n", finding.token);
  }
  const std::size_t shown = std::min(result.findings.size(), kFindingsMost);
  const std::size_t more = result.findings.size() - shown + result.findings_left_out;
  return text + (more > 0 ? fmt::format("    ... and {} more\n", more) : "");
}

std::string not_run_text(const Result& result) {
  if (result.not_run.empty()) return "";
  std::string text = "\n  Not run, and why:\n\n";
  for (const NotRun& reason : result.not_run)
    text += fmt::format("    {:>6}  {}\n", reason.recoveries, printable(reason.sentence));
  return text;
}

// "24 executions and 96 recoveries"
std::string units_text(const Result& result) {
  const Counts& counts = result.counts;
  if (result.counts_images) return count_text(counts.recoveries, "image", "images");
  const std::string recoveries = count_text(counts.recoveries, "recovery", "recoveries");
  if (counts.executions == 0 && result.has_recoveries) return recoveries;
  const std::string executions = count_text(counts.executions, "execution", "executions");
  return result.has_recoveries ? fmt::format("{} and {}", executions, recoveries) : executions;
}

// "1 lost, 2 not durable"
std::string kinds_text(const Result& result) {
  std::vector<std::pair<std::string, std::uint64_t>> kinds;
  for (const Finding& finding : result.findings) {
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == finding.kind; });
    if (known == kinds.end()) {
      kinds.emplace_back(finding.kind, finding.count);
    } else {
      known->second += finding.count;
    }
  }
  std::string text;
  for (const auto& [kind, count] : kinds) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  if (result.findings_left_out > 0) text += ", and others that are not listed";
  return text;
}

// What else was done, each part with "; " before it.
std::string details_text(const Counts& counts) {
  std::vector<std::string> parts;
  if (counts.operations > 0 || counts.events > 0) {
    parts.push_back(fmt::format("{}, {}", count_text(counts.operations, "operation", "operations"),
                                count_text(counts.events, "event", "events")));
  }
  if (counts.executions > 0) {
    std::string steps = count_text(counts.steps, "step", "steps");
    if (counts.foreseen > 0)
      steps += fmt::format(", {} not run, known to be like one of these",
                           count_text(counts.foreseen, "more execution", "more executions"));
    if (counts.asleep > 0) steps += fmt::format(", {} cut short as redundant", counts.asleep);
    if (counts.merged_executions > 0)
      steps += fmt::format(", recoveries of {} would be the same",
                           count_text(counts.merged_executions, "more execution", "more executions"));
    parts.push_back(std::move(steps));
  }
  std::string text;
  for (const std::string& part : parts) text += "; " + part;
  return text;
}

std::string asides_text(const Counts& counts) {
  std::string text;
  const auto add = [&](std::uint64_t count, std::string_view what) {
    if (count > 0) text += fmt::format(" ({} {})", count, what);
  };
  add(counts.assumed_away, "assumed away");
  add(counts.assumed_away_executions,
      counts.assumed_away_executions == 1 ? "execution assumed away" : "executions assumed away");
  add(counts.not_run, "could not be run");
  add(counts.sampled, "sampled");
  add(counts.random_executions, "under random schedules");
  return text;
}

// " (5% to 20%)"; empty if both would be shown alike.
template <class Text>
std::string range_text(const Fraction& fraction, Text&& text) {
  const std::string low = text(fraction.low), high = text(fraction.high);
  return low == high ? "" : fmt::format(" ({} to {})", low, high);
}

// "; --time was reached after an estimated 12% of the whole"
std::string coverage_text(const Result& result) {
  if (result.bound == Bound::kNone) return "";
  std::string text = fmt::format("; {}", clause_of(result.bound));
  if (!result.coverage.empty()) return text + ": " + result.coverage;
  if (is_partial(result.bound))
    text += fmt::format(" after an estimated {} of the whole{}", percent_text(result.explored_fraction.likely),
                        range_text(result.explored_fraction, percent_text));
  return text;
}

std::string verdict_text(const Result& result) {
  const std::string units = units_text(result);
  switch (result.verdict) {
    case Verdict::kVerified: {
      const bool is_one = result.counts.executions + result.counts.recoveries == 1;
      return fmt::format("verified{}: {}{}, none failed", result.scope, is_one ? "" : "all ", units);
    }
    case Verdict::kBounded:
      if (result.bound == Bound::kKernel) return fmt::format("none of {} failed", units);
      return fmt::format("bounded ({}): {}, none failed", name_of(result.bound), units);
    case Verdict::kViolation: {
      const std::string kinds = kinds_text(result);
      const std::string failed =
          result.counts.executions > 0
              ? fmt::format("{} in {}", count_text(result.counts.violations, "violation", "violations"), units)
              : fmt::format("{} of {} failed", result.counts.violations, units);
      return fmt::format("violation: {}{}{}", failed, kinds.empty() ? "" : ": ", kinds);
    }
  }
  return "";
}

}  // namespace

std::string head_text(const Head& head) {
  std::string text = fmt::format("crashcut {}{} {} | {}", head.command, head.has_separator ? " --" : "",
                                 joined(head.program), head.model.text);
  for (const std::string& part : {settings_text(head.settings), settings_text(head.bounds)}) {
    if (!part.empty()) text += " | " + part;
  }
  return text + fmt::format(" | seed {}\n", head.seed);
}

std::string outcomes_text(const Result& result) {
  std::vector<std::string> outputs;
  for (const Outcome& outcome : result.outcomes) outputs.push_back(outcome.output);
  const std::vector<std::string> texts = texts_of(outputs, printable_outcome);
  std::string text = "\nOutcomes:\n";
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Outcome& outcome = result.outcomes[i];
    total += outcome.recoveries;
    const bool is_part = outcome.violations > 0 && outcome.violations < outcome.recoveries;
    text += fmt::format("{} {:>8}  {}{}\n", outcome.violations > 0 ? '!' : ' ', outcome.recoveries, texts[i],
                        is_part ? fmt::format("  ({} of them violate)", outcome.violations) : "");
  }
  if (result.outcomes_cut) text += "            ... and others\n";
  return text +
         fmt::format("  {:>8}  total, {}\n", total, count_text(texts.size(), "distinct outcome", "distinct outcomes"));
}

std::string counterexample_text(const Counterexample& example, Detail detail) {
  std::string text =
      fmt::format("\nviolation{}: {}\n", example.label.empty() ? "" : fmt::format(" ({})", example.label),
                  printable(example.sentence));
  text += story_text(example.story, detail);
  for (const Mend& mend : example.mends) {
    const bool is_first = &mend == example.mends.data();
    const std::string line = (is_first ? "  mend: " : "    or: ") + printable(mend.text);
    text += fmt::format("{}{}\n", is_first ? "\n" : "", fmt::join(wrapped(line, kWrapAt, "        "), "\n"));
  }
  if (!example.no_mend.empty()) text += fmt::format("\n  {}\n", printable(example.no_mend));
  if (!example.is_smallest && !example.story.crashes.empty())
    text += "\n  The search did not end, so there may be a smaller cut that fails.\n";
  if (!example.was_run_again)
    text += "\n  There was no time left to run it again.\n";
  else if (!example.replays)
    text +=
        "\n  Run again, it came out differently: something that crashcut does not see decides what the program does.\n";
  return text;
}

std::string violation_text(const Result& result, Detail detail) {
  const std::string rest = findings_text(result) + not_run_text(result);
  if (!result.counterexample) return fmt::format("\nNo counterexample is shown: {}\n{}", result.unexplained, rest);
  return counterexample_text(*result.counterexample, detail) + rest;
}

std::string end_text(const Result& result, const std::string& crashcut) {
  std::string text;
  for (const std::string& note : result.notes) text += fmt::format("note: {}\n", note);
  for (const MemoryNote& note : result.memory_notes)
    text += fmt::format("note ({}): {}\n", note.kind, printable(note.text));
  if (result.memory_notes_left_out > 0) text += fmt::format("note: {} more of these\n", result.memory_notes_left_out);
  for (const std::string& sentence : result.not_covered) text += fmt::format("not covered: {}\n", sentence);
  if (!result.debug.empty()) text += fmt::format("debug: {}\n", result.debug);
  if (!result.resume.empty()) text += fmt::format("resume: {}\n", result.resume);
  text += fmt::format("{}{}{}; {:.2f} s{}", verdict_text(result), asides_text(result.counts),
                      details_text(result.counts), result.seconds, coverage_text(result));
  if (!result.token.empty())
    text += fmt::format("; replay: {} replay {}{}", crashcut, result.replay_options, result.token);
  return text + "\n";
}

std::string replay_end_text(const Counterexample& example, bool is_violation) {
  std::string text = example.sentence;
  if (!example.label.empty() && is_violation) text = example.label + ": " + text;
  // The sentence may contain the message already.
  if (example.sentence == example.finding.text && !example.finding.message.empty() && is_violation)
    text += ": " + example.finding.message;
  return fmt::format("{}: {}\n", is_violation ? "violation" : "no violation", printable(text));
}

std::string progress_text(const Progress& progress) {
  std::string text = time_text(progress.seconds) + ": ";
  if (progress.executions > 0) text += count_text(progress.executions, "execution", "executions") + ", ";
  if (progress.recoveries > 0 || progress.executions == 0)
    text += count_text(progress.recoveries, "recovery", "recoveries") + ", ";
  text += count_text(progress.violations, "violation", "violations");
  const Fraction& fraction = progress.fraction;
  text += fmt::format("; an estimated {} done{}{}", percent_text(fraction.likely),
                      progress.part.empty() ? "" : " of " + progress.part, range_text(fraction, percent_text));
  if (progress.seconds_left >= 0) return text + fmt::format(", {} left", time_text(progress.seconds_left));
  if (fraction.likely <= 0) return text;
  const auto left = [&](double done) {
    return time_text(progress.seconds * std::max(0.0, 1 - done) / std::max(done, 1e-300));
  };
  return text + fmt::format(", {} left{}", left(fraction.likely), range_text({fraction.high, 0, fraction.low}, left));
}

}  // namespace crashcut::result
