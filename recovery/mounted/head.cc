// What a report of crashcut check begins with.
#include <fmt/format.h>

#include "recovery/mounted/check.h"
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
  return {{"depth", std::uint64_t{plan.search.depth}, fmt::format("depth {}", plan.search.depth)},
          {"max_recoveries", or_none(plan.search.max_recoveries),
           plan.search.max_recoveries == 0 ? "all recoveries"
                                           : fmt::format("at most {} recoveries", plan.search.max_recoveries)},
          {"time_s", or_none(plan.search.time_limit.count()),
           plan.search.time_limit.count() > 0 ? fmt::format("at most {:g} s", plan.search.time_limit.count()) : ""},
          {"jobs", std::uint64_t{plan.search.jobs}, count_text(plan.search.jobs, "job", "jobs")},
          {"check_limit_s", static_cast<std::uint64_t>(plan.check_limit.count())}};
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
  head.seed = plan.search.seed;
  return head;
}

std::string recorded_text(const Recorded& recorded, const CheckPlan& plan) {
  const double time_s = plan.search.time_limit.count();
  const std::string_view option = time_s > 0 && recorded.seconds >= 0.99 * time_s ? "--time" : "--program-limit";
  const bool was_stopped = recorded.timed_out || recorded.out_of_memory;
  std::string text = fmt::format(
      "recorded: the program {} after {:.2f} s; trace: {}\n",
      was_stopped ? fmt::format("was stopped ({})", recorded.out_of_memory ? "--memory-limit" : option) : "ended",
      recorded.seconds, trace_of(plan.directory));
  if (!recorded.not_on_disk.empty()) text += fmt::format("note: {}\n", not_on_disk_text(recorded.not_on_disk));
  if (recorded.left_running > 0 && !was_stopped)
    text +=
        fmt::format("note: it left {} running; killed\n", count_text(recorded.left_running, "process", "processes"));
  if (recorded.used_io_uring) text += "note: it used io_uring; a sync_file_range through that is not seen\n";
  if (!recorded.weak_sandbox.empty())
    text += fmt::format("note: {}{}\n", recorded.weak_sandbox,
                        plan.search.jobs > 1 && !plan.checker.empty() ? "; so there is one job" : "");
  return text;
}

}  // namespace crashcut::mounted
