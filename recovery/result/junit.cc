#include "recovery/result/junit.h"

#include <fmt/format.h>

#include <algorithm>

#include "recovery/result/words.h"

namespace crashcut::result {
namespace {

std::string xml(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Text between tags: its lines stay lines.
std::string xml_lines(std::string_view text) {
  std::string out;
  for (std::size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    out += xml(text.substr(0, end)) + "\n";
  }
  return out + xml(text);
}

std::string line_of(const Finding& finding, std::string_view unit_one, std::string_view unit_many) {
  return fmt::format("{}: {}{}: {}", finding.kind, finding.text, finding.message.empty() ? "" : ": " + finding.message,
                     count_text(finding.count, unit_one, unit_many));
}

// One failure a case, which readers count on; in it all that was found, the worst first. Empty: it passed.
std::string failure_of(const Result& result, const std::string& subject, const std::string& crashcut) {
  const Finding* first = nullptr;
  std::string lines;
  if (result.counterexample && result.counterexample->finding.subject == subject) {
    first = &result.counterexample->finding;
    lines = xml_lines(result.counterexample->sentence);
    if (!result.token.empty())
      lines += xml_lines(fmt::format(" | {} replay {}{}", crashcut, result.replay_options, result.token));
    lines += "\n";
    for (const Mend& mend : result.counterexample->mends) lines += xml_lines("mend: " + mend.text) + "\n";
  }
  const bool is_of_schedules = result.counts.executions > 0;
  for (const Finding& finding : result.findings) {
    if (finding.subject != subject) continue;
    if (first == nullptr) first = &finding;
    lines += xml_lines(line_of(finding, is_of_schedules ? "execution" : "recovery",
                               is_of_schedules ? "executions" : "recoveries")) +
             "\n";
  }
  if (first == nullptr) return "";
  return fmt::format("\n    <failure type=\"{}\" message=\"{}\">{}</failure>", xml(first->kind),
                     xml(first->text + (first->message.empty() ? "" : ": " + first->message)), lines);
}

}  // namespace

// The result as one test suite. `model` is added to its name.
static std::string suite_of(const Result& result, const std::string& crashcut, const std::string& model) {
  // What failed and was not asked about by name is a case too.
  std::vector<std::string> subjects = result.subjects;
  const auto add = [&](const std::string& subject) {
    if (std::find(subjects.begin(), subjects.end(), subject) == subjects.end()) subjects.push_back(subject);
  };
  if (result.counterexample) add(result.counterexample->finding.subject);
  for (const Finding& finding : result.findings) add(finding.subject);
  std::string cases;
  std::size_t failures = 0;
  for (const std::string& subject : subjects) {
    const std::string failure = failure_of(result, subject, crashcut);
    failures += !failure.empty();
    cases += fmt::format("  <testcase classname=\"crashcut\" name=\"{}\">{}</testcase>\n", xml(subject), failure);
  }
  const std::string suite = fmt::format("crashcut {}{} {}{}", result.head.command,
                                        result.head.has_separator ? " --" : "", joined(result.head.program), model);
  return fmt::format("<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" time=\"{:.3f}\">\n{}</testsuite>\n",
                     xml(suite), subjects.size(), failures, result.seconds, cases);
}

static constexpr std::string_view kXmlHead = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

std::string junit_text(const Result& result, const std::string& crashcut) {
  return fmt::format("{}{}", kXmlHead, suite_of(result, crashcut, ""));
}

std::string junit_text(const std::vector<Result>& rows, const std::string& crashcut) {
  std::string suites;
  for (const Result& row : rows) suites += suite_of(row, crashcut, " | " + row.head.model.text);
  return fmt::format("{}<testsuites>\n{}</testsuites>\n", kXmlHead, suites);
}

}  // namespace crashcut::result
