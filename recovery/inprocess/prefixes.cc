#include "recovery/inprocess/prefixes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>

#include "recovery/result/words.h"

namespace crashcut::inprocess {
namespace {

struct Marks {
  std::vector<std::uint32_t> events;  // in order
  bool has_twins = false;             // of one text
};

// From the description of the recording.
Marks find_marks(const std::string& description) {
  Marks marks;
  std::set<std::string> seen;
  std::istringstream lines(description);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"kind\":\"mark\"") == line.npos) continue;
    const auto parsed = nlohmann::json::parse(line, nullptr, false);
    if (parsed.is_discarded() || !parsed.contains("event")) continue;
    marks.has_twins = !seen.insert(parsed.value("text", "")).second || marks.has_twins;
    marks.events.push_back(parsed.at("event"));
  }
  return marks;
}

constexpr std::size_t kShownMost = 60;

std::string quoted(const std::string& text) {
  const std::string shown = text.substr(0, text.find_last_not_of('\n') + 1);
  return "\"" + result::printable(shown.size() > kShownMost ? shown.substr(0, kShownMost) + "..." : shown) + "\"";
}

}  // namespace

tl::expected<Prefixes, Failure> Prefixes::find(Session& session) {
  const auto description = session.describe();
  if (!description) return tl::unexpected(description.error());
  const auto [marks, has_twins] = find_marks(*description);
  if (marks.empty() || has_twins) {
    return tl::unexpected(result::users_failure(
        fmt::format("--expect prefix needs {}: main() calls crashcut_mark() after each of its operations, each time "
                    "with another text.",
                    has_twins ? "marks that differ" : "marks")));
  }
  Prefixes prefixes;
  for (std::size_t k = 0; k <= marks.size() + 1; ++k) {
    const std::uint64_t count = k == 0 ? 0 : k <= marks.size() ? marks[k - 1] + 1 : session.execution().event_count;
    std::vector<std::uint32_t> events(count);
    std::iota(events.begin(), events.end(), 0u);
    const auto run = session.run_cut(events);
    if (!run) return tl::unexpected(run.error());
    if (run->recovery.kind == RecordKind::kToolError) return tl::unexpected(Failure{run->recovery.blame, run->text});
    prefixes.outputs_.push_back(run->output);
  }
  return prefixes;
}

bool Prefixes::is_expected(const Recovery& recovery) const {
  const std::size_t k = recovery.marks_reached;
  return recovery.output == after(k) || recovery.output == after(k + 1);
}

result::Finding Prefixes::finding_of(const Recovery& recovery) const {
  const std::size_t k = recovery.marks_reached;
  result::Finding finding;
  finding.kind = "prefix";
  finding.text =
      fmt::format("recovery found a state that is neither that after {} nor that after {} operations", k, k + 1);
  finding.message = fmt::format("it printed {}, and prints {} after {} and {} after {}",
                                quoted(std::string(recovery.output)), quoted(after(k)), k, quoted(after(k + 1)), k + 1);
  return finding;
}

}  // namespace crashcut::inprocess
