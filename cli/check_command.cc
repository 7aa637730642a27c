// crashcut check: pulls the plug on any program, unmodified, on a mounted filesystem.
#include <fmt/format.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <chrono>

#include "cli/commands.h"
#include "cli/device_check.h"
#include "cli/interrupts.h"
#include "cli/kernel_check.h"
#include "cli/mounted_options.h"
#include "cli/options.h"
#include "cli/progress_line.h"
#include "persist/deadline.h"
#include "recovery/mounted/check.h"

namespace crashcut::cli {
namespace {

using result::Failure;
using result::wrong_use;
namespace fs = boost::filesystem;

tl::expected<int, Failure> search(ReportOptions reports, const mounted::CheckPlan& plan, const result::Head& head,
                                  mounted::Recorded recorded, const search::Rest* before) {
  ProgressLine line(reports.quiet);
  const SearchSignals signals;
  auto checked = mounted::check(plan, head, recorded, line.hooks(), before);
  line.clear();
  if (!checked) return tl::unexpected(checked.error());
  keep_rest(reports, "check", checked->rest, checked->result);
  return report(reports, checked->result);
}

tl::expected<int, Failure> check(const MountedOptions& options, const std::vector<std::string>& words) {
  ReportOptions reports = options.common.reports;
  if (auto ok = check_reports(reports); !ok) return tl::unexpected(ok.error());
  auto plans = make_mounted_plans(options, words);
  if (!plans) return tl::unexpected(plans.error());
  mounted::CheckPlan& plan = plans->check;
  reports.directory = plan.directory;
  plans->record.is_stdout_taken = reports.is_stdout_taken();
  const result::Head head = mounted::head_of("check", plan, words);
  print_head(reports, head);
  const persist::Deadline deadline(plan.search.time_limit.count());
  const auto recorded = record_program(*plans);
  if (!recorded) return tl::unexpected(recorded.error());
  if (!reports.quiet) print(reports.out(), mounted::recorded_text(*recorded, plan));
  plan.search.time_limit = std::chrono::duration<double>(deadline.seconds_left());
  plan.search.known = known_tokens();
  plan.search.wants_mends = true;
  return search(reports, plan, head, *recorded, nullptr);
}

// Goes on where a search stopped, in its directory. Bounds are those of this run.
tl::expected<int, Failure> resume(const MountedOptions& options, const std::string& directory) {
  ReportOptions reports = options.common.reports;
  if (auto ok = check_reports(reports); !ok) return tl::unexpected(ok.error());
  const auto text = read_rest_file(directory);
  if (!text) return tl::unexpected(text.error());
  if (is_device_rest(*text)) return resume_device(options, directory, *text);
  if (is_kernel_rest(*text)) return resume_kernel(options, directory, *text);
  auto stopped = mounted::read_rest(*text);
  if (!stopped) return wrong_use(fmt::format("{}: {}", directory, stopped.error()));
  mounted::CheckPlan& plan = stopped->plan;
  const auto bounds = make_plan(options.common);
  if (!bounds) return tl::unexpected(bounds.error());
  plan.search.jobs = bounds->jobs;
  plan.search.max_recoveries = bounds->max_recoveries;
  plan.search.time_limit = bounds->time_limit;
  plan.search.wants_all = plan.search.wants_all || reports.outcomes;
  plan.search.wants_mends = true;
  plan.search.wants_states = true;
  plan.search.wants_all_states = !reports.html_file.empty();
  plan.directory = reports.directory = fs::canonical(directory).string();
  const result::Head head = mounted::head_of("check", plan, stopped->words);
  print_head(reports, head);
  return search(reports, plan, head, stopped->recorded, &stopped->rest);
}

}  // namespace

void add_check_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<MountedOptions>();
  CLI::App* command = app.add_subcommand("check", "pull the plug on any program, unmodified, on a mounted filesystem");
  add_mounted_options(*command, *options);
  auto device = std::make_shared<DeviceOptions>();
  add_device_options(*command, *device);
  auto directory = std::make_shared<std::string>();
  add_resume_option(*command, *directory);
  command->footer(
      std::string(
          "The program starts in the root of the modelled disk, which is empty but for --from and --setup.\n"
          "Without --file, --tree, --expect or --check, every file must be found old or new, whole, and new\n"
          "once the program has exited. A checker's exit status 0 is fine; it starts in the crashed disk, finds\n"
          "the marks that were reached in $CRASHCUT_MARKS and the lines printed in $CRASHCUT_STDOUT (reading\n"
          "them decides). $CRASHCUT_CERTAIN has those that are certain without asking; who reads nothing else\n"
          "finds no lost commit, as whether a mark was reached is then never asked.\n\n"
          "Examples: crashcut check --file notes.txt -- nano notes.txt\n"
          "          crashcut check --setup ./make_db.sh --check ./verify.sh -- sqlite3 test.db \"insert ...\"\n"
          "          crashcut check --device --check './engine verify device' -- ./engine run device\n"
          "          crashcut check --fs kernel:ext4:data=journal --file notes.txt -- nano notes.txt\n\n") +
      kExitCodes);
  command->callback([command, options, device, directory, &exit_code] {
    const auto run = [&]() -> tl::expected<int, Failure> {
      if (directory->empty()) {
        const bool has_program = device->import_log.empty();
        const std::vector<std::string> words = has_program ? program_words(*command) : std::vector<std::string>();
        if (auto ok = check_beside_device(*command, *device); !ok) return tl::unexpected(ok.error());
        if (device->is_device) return check_device(*options, *device, words);
        if (!device->filesystem.empty()) return check_kernel(*options, *device, words, command->count("--sector") > 0);
        return check(*options, words);
      }
      if (auto ok = check_beside_resume(*command); !ok) return tl::unexpected(ok.error());
      return resume(*options, *directory);
    };
    const auto code = run();
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
