#include "cli/conform_result.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <boost/filesystem.hpp>

#include "fusefs/checksum.h"
#include "recovery/kernel/image_file.h"
#include "recovery/mounted/token.h"
#include "recovery/result/token_bytes.h"
#include "recovery/result/words.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using result::Bound;
using result::count_text;
using result::Failure;
using result::Setting;
using result::Verdict;

// Empty where the file cannot be read.
std::string sum_of_file(const std::string& path) {
  const auto file = kernel::MappedFile::open(path);
  if (!file) return "";
  const auto bytes = file->bytes();
  return fmt::format("{:016x}", fusefs::xxh64({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, 0));
}

// Empty if the image was not kept.
std::string token_of(const ConformFinding& finding, const ConformPlan& plan, const std::string& directory) {
  if (directory.empty() || finding.outside.file.empty()) return "";
  const std::string path = directory + "/" + finding.outside.file;
  result::Token token;
  token.command = kConformCommand;
  const fs::path below = fs::relative(path);
  token.program = below.empty() || *below.begin() == ".." ? finding.outside.file : below.string();
  token.program_id = sum_of_file(path);
  token.arguments = finding.words;
  token.seed = plan.sets.seed;
  result::TokenWriter own;
  own.text(finding.mount);
  own.texts(finding.outside.marks);
  token.own = own.take();
  return token.program_id.empty() ? "" : result::encode(token);
}

result::Finding finding_of(const ConformFinding& from, const ConformPlan& plan, const std::string& directory) {
  return {.kind = "outside",
          .subject = name_of(ConformRow{.options = from.mount, .set = from.set}),
          .text = fmt::format("{}: the kernel left what the model does not allow: {}", from.program,
                              result::printable_outcome(from.outside.state)),
          .message = from.outside.how,
          .count = from.outside.images,
          .token = token_of(from, plan, directory)};
}

result::Counterexample counterexample_of(const ConformFinding& from, const result::Finding& finding) {
  result::Counterexample example;
  example.finding = finding;
  example.label = finding.kind;
  example.sentence =
      fmt::format("{} can leave what the model does not allow: {}; after {}; {}", filesystem_of(from.mount),
                  result::printable_outcome(from.outside.state), from.program, from.outside.how);
  example.story.output = from.outside.state + "\n";
  example.replays = from.outside.replays;
  return example;
}

// A row of the table, for programs.
std::vector<Setting> row_of(const ConformRow& row) {
  std::vector<Setting> settings{{"mount", row.options},          {"set", row.set},
                                {"programs", row.total},         {"compared", row.programs},
                                {"skipped", row.skipped},        {"images_chosen", row.chosen},
                                {"images", row.images},          {"states_seen", row.seen},
                                {"states_allowed", row.allowed}, {"states_damaged", row.damaged},
                                {"states_outside", row.outside}};
  Setting::Rows not_shown;
  for (const auto& [rule, count] : row.slack)
    not_shown.push_back({{"rule", std::string(name_of(rule))}, {"states", count}});
  settings.push_back({"not_shown", std::move(not_shown)});
  return settings;
}

}  // namespace

result::Head head_of(const ConformPlan& plan, std::uint32_t jobs, double time_s) {
  utsname system{};
  uname(&system);
  result::Head head;
  head.command = kConformCommand;
  head.program = plan.words();
  head.model.text = fmt::format("kernel:ext4 (Linux {}) against the model ext4", system.release);
  head.model.settings = {{"fs", std::string("kernel:ext4")}, {"kernel", std::string(system.release)}};
  head.settings = {
      {"mounts", plan.mounts}, {"runs", std::uint64_t{plan.runs}}, {"subsets", std::uint64_t{plan.subsets}}};
  head.bounds = {{"time_s", result::or_none(time_s), time_s > 0 ? fmt::format("at most {} s", time_s) : ""},
                 {"jobs", std::uint64_t{jobs}, count_text(jobs, "job", "jobs")}};
  head.seed = plan.sets.seed;
  return head;
}

result::Result result_of(const ConformState& state, const result::Head& head, Bound bound,
                         const std::string& directory) {
  result::Result result;
  result.head = head;
  result.counts_images = true;
  result.bound = bound;
  result.verdict = !state.findings.empty() ? Verdict::kViolation
                   : bound != Bound::kNone ? Verdict::kBounded
                                           : Verdict::kVerified;
  result.scope = " for the images of these runs";
  if (bound != Bound::kNone) {
    result.explored_fraction = state.program_count() == 0 ? 0.0
                                                          : static_cast<double>(state.done_count()) /
                                                                static_cast<double>(state.program_count());
    result.coverage =
        fmt::format("{} of {} compared", state.done_count(), count_text(state.program_count(), "program", "programs"));
  }
  result.seconds = state.seconds;
  Setting::Rows rows;
  for (const ConformState::Mount& mount : state.mounts) {
    for (const ConformRow& row : mount.rows) {
      result.subjects.push_back(name_of(row));
      result.counts.recoveries += row.images;
      rows.push_back(row_of(row));
      if (row.skipped > 0)
        result.not_covered.push_back(fmt::format(
            "{}: {}, as the model's states are more than were looked at, or as the program fails by itself",
            name_of(row), count_text(row.skipped, "program was not compared", "programs were not compared")));
    }
  }
  result.facts = {{"rows", std::move(rows)}};
  for (const ConformFinding& from : state.findings) {
    result.findings.push_back(finding_of(from, state.plan, directory));
    result.counts.violations += from.outside.images;
  }
  if (!state.findings.empty()) {
    result.counterexample = counterexample_of(state.findings.front(), result.findings.front());
    result.token = result.findings.front().token;
    result.replay_options = mounted::replay_options(directory);
  }
  return result;
}

tl::expected<ConformToken, Failure> read_conform_token(const result::Token& from, const std::string& directory) {
  result::TokenReader in(from.own);
  ConformToken token{"", {.mount = in.text(), .seed = from.seed}, from.arguments, in.texts()};
  if (!in.at_end()) return result::wrong_use(result::no_crashcut_wrote_it());
  const std::string name = fs::path(from.program).filename().string();
  std::vector<std::string> places{from.program};
  if (!directory.empty()) places = {directory + "/" + name};
  boost::system::error_code error;
  for (fs::directory_iterator at("crashcut.out", error), end; directory.empty() && !error && at != end;
       at.increment(error))
    places.push_back((at->path() / name).string());
  for (const std::string& place : places) {
    if (sum_of_file(place) != from.program_id) continue;
    token.image = fs::canonical(place).string();
    return token;
  }
  return result::wrong_use(fmt::format(
      "The image that this token was made from, {}, is not found here. Name the directory of the results with "
      "--results.",
      result::printable(from.program)));
}

}  // namespace crashcut::cli
