#include "recovery/mounted/result.h"

#include <fmt/format.h>

#include "recovery/result/words.h"

namespace crashcut::mounted {
namespace {

using result::count_text;
using result::or_none;
using result::printable;
using result::Setting;

std::vector<Setting> settings_of(const CheckPlan& plan) {
  std::vector<std::string> expects;
  for (const Expect expect : plan.expects) expects.emplace_back(to_text(expect));
  std::string files, backups;
  for (const std::string& file : plan.files) files += (files.empty() ? "file " : ", file ") + printable(file);
  for (const std::string& file : plan.backups)
    backups += (backups.empty() ? "or its backup " : ", or its backup ") + printable(file);
  const bool asks_all = plan.tree || (plan.files.empty() && plan.expects.empty() && plan.checker.empty());
  return {{"files", plan.files, files},
          {"backups", plan.backups, backups},
          {"tree", plan.tree, asks_all ? "every file old or new" : ""},
          {"expect", expects, fmt::format("{}", fmt::join(expects, ", "))},
          {"checker", plan.checker.words, plan.checker.empty() ? "" : "checker " + result::joined(plan.checker.words)},
          {"durable", plan.durable, plan.durable ? "" : "durability not asked"},
          {"directory", plan.directory}};
}

std::vector<Setting> bounds_of(const CheckPlan& plan) {
  return {{"depth", std::uint64_t{plan.depth}, fmt::format("depth {}", plan.depth)},
          {"max_recoveries", or_none(plan.max_recoveries),
           plan.max_recoveries == 0 ? "all recoveries" : fmt::format("at most {} recoveries", plan.max_recoveries)},
          {"time_s", or_none(plan.time_limit.count()),
           plan.time_limit.count() > 0 ? fmt::format("at most {:g} s", plan.time_limit.count()) : ""},
          {"jobs", std::uint64_t{plan.jobs}, count_text(plan.jobs, "job", "jobs")},
          {"check_limit_s", static_cast<std::uint64_t>(plan.check_limit.count())}};
}

std::vector<std::string> notes_of(const CheckResult& checked) {
  std::vector<std::string> notes;
  const Tally& tally = checked.explored.tally;
  if (!tally.not_deterministic.empty())
    notes.push_back(fmt::format("the checker is not deterministic: {}", tally.not_deterministic));
  if (checked.explored.is_in_other_namespace)
    notes.emplace_back(
        "the program stored the number of its process namespace (/proc/self/ns/pid), and the checkers ran in another "
        "one: to them a lock with that number is another machine's");
  if (tally.read_by_pages)
    notes.emplace_back(
        "files were mapped or executed, so they were read in pages of 4096 bytes: states that differ only in the rest "
        "of a page count twice");
  if (checked.was_stopped)
    notes.emplace_back(
        "the program was stopped (--program-limit); what it did until then was crashed, and its end is no promise");
  if (!checked.trace_is_complete)
    notes.emplace_back("the recording was cut off; what came after it is not part of this");
  return notes;
}

result::Finding finding_of(const ViolationKey& key, const std::string& subject, std::uint64_t count) {
  result::Finding finding;
  finding.kind = to_text(key.finding);
  finding.subject = subject;
  // A file's outcome says it all; a checker ended somehow, and printed something.
  finding.text = key.end.empty() ? key.message : fmt::format("the checker {}", key.end);
  if (!key.end.empty()) finding.message = key.message;
  finding.count = count;
  return finding;
}

}  // namespace

result::Head head_of(const std::string& command, const CheckPlan& plan, const std::vector<std::string>& words) {
  result::Head head;
  head.command = command;
  head.program = words;
  head.has_separator = true;
  head.model = fusefs::spec_of(plan.model);
  head.settings = settings_of(plan);
  head.bounds = bounds_of(plan);
  head.seed = plan.seed;
  return head;
}

std::string recorded_text(const Recorded& recorded, const CheckPlan& plan) {
  std::string text = fmt::format("recorded: the program {} after {:.2f} s; trace: {}\n",
                                 recorded.timed_out ? "was stopped (--program-limit)" : "ended", recorded.seconds,
                                 trace_of(plan.directory));
  if (!recorded.not_on_disk.empty()) text += fmt::format("note: {}\n", not_on_disk_text(recorded.not_on_disk));
  if (recorded.left_running > 0 && !recorded.timed_out)
    text +=
        fmt::format("note: it left {} running; killed\n", count_text(recorded.left_running, "process", "processes"));
  if (recorded.used_io_uring) text += "note: it used io_uring; a sync_file_range through that is not seen\n";
  if (!recorded.weak_sandbox.empty())
    text += fmt::format("note: {}{}\n", recorded.weak_sandbox,
                        plan.jobs > 1 && !plan.checker.empty() ? "; so there is one job" : "");
  return text;
}

result::Counterexample counterexample_of(const Counterexample& example, const std::string& subject) {
  const CommandResult& ended = example.told.run.result;
  result::Counterexample told;
  told.finding = finding_of(example.key, subject, 1);
  told.finding.code = ended.signal != 0 ? ended.signal : ended.code;
  told.label = told.finding.kind;
  told.sentence = example.sentence;
  told.story = example.told.story;
  told.story.names = {"the program", example.is_of_checker ? "the checker" : "crashcut"};
  told.story.output = ended.output;
  told.story.errors = ended.errors;
  told.story.output_cut = ended.output_cut;
  told.story.errors_cut = ended.errors_cut;
  told.path = inprocess::path_to_text(example.told.run.path);
  told.is_smallest = example.is_smallest;
  told.replays = example.replays;
  return told;
}

result::Result result_of(const CheckPlan& plan, const result::Head& head, const Recorded& recorded,
                         const CheckResult& checked) {
  const Tally& tally = checked.explored.tally;
  result::Result result;
  result.head = head;
  result.head.model = fusefs::spec_of(plan.model);
  result.execution = {{"exited", recorded.exited},
                      {"code", static_cast<std::uint64_t>(recorded.code)},
                      {"signal", static_cast<std::uint64_t>(recorded.signal)},
                      {"timed_out", recorded.timed_out},
                      {"left_running", std::uint64_t{recorded.left_running}},
                      {"seconds", recorded.seconds}};
  result.verdict = checked.verdict;
  result.bound = checked.explored.bound;
  result.explored_fraction = checked.explored.fraction;
  result.seconds = checked.explored.seconds;
  result.counts.recoveries = tally.recoveries;
  result.counts.sampled = checked.explored.sampled;
  result.counts.assumed_away = tally.assumed_away;
  result.counts.violations = tally.violations;
  result.counts.operations = checked.operation_count;
  result.counts.events = checked.event_count;
  for (const auto& [output, count] : tally.outcomes)
    result.outcomes.push_back({output, count.recoveries, count.violations});
  result.outcomes_cut = tally.outcomes_cut;
  for (const Question& question : checked.questions) result.subjects.push_back(subject_of(question));
  for (const auto& [key, found] : tally.classes)
    result.findings.push_back(finding_of(key, result.subjects[key.question], found.count));
  result.notes = notes_of(checked);
  if (checked.counterexample)
    result.counterexample =
        counterexample_of(*checked.counterexample, result.subjects[checked.counterexample->key.question]);
  result.facts = {{"read_by_pages", tally.read_by_pages},
                  {"in_other_namespace", checked.explored.is_in_other_namespace},
                  {"not_deterministic", or_none(tally.not_deterministic)}};
  result.token = checked.token;
  result.replay_options = replay_options(plan.directory);
  return result;
}

}  // namespace crashcut::mounted
