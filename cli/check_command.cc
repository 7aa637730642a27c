// crashcut check: pulls the plug on any program, unmodified, on a mounted filesystem.
#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/mounted_options.h"
#include "cli/options.h"
#include "cli/progress_line.h"
#include "recovery/mounted/result.h"

namespace crashcut::cli {
namespace {

using result::Failure;

tl::expected<mounted::CheckResult, Failure> check_with_progress(const mounted::CheckPlan& plan, bool is_quiet) {
  ProgressLine line(is_quiet);
  mounted::PoolHooks hooks;
  hooks.is_interrupted = is_interrupted;
  hooks.on_progress = [&](const result::Progress& progress) { line.show(progress); };
  const SearchSignals signals;
  return mounted::check(plan, hooks);
}

tl::expected<int, Failure> check(const MountedOptions& options, const std::vector<std::string>& words) {
  ReportOptions reports = options.common.reports;
  if (auto ok = check_reports(reports); !ok) return tl::unexpected(ok.error());
  auto plans = make_mounted_plans(options, words);
  if (!plans) return tl::unexpected(plans.error());
  const mounted::CheckPlan& plan = plans->check;
  reports.directory = plan.directory;
  plans->record.is_stdout_taken = reports.is_stdout_taken();
  const result::Head head = mounted::head_of("check", plan, words);
  print_head(reports, head);
  const auto recorded = record_program(*plans);
  if (!recorded) return tl::unexpected(recorded.error());
  if (!reports.quiet) print(reports.out(), mounted::recorded_text(*recorded, plan));
  const auto checked = check_with_progress(plan, reports.quiet);
  if (!checked) return tl::unexpected(checked.error());
  return report(reports, mounted::result_of(plan, head, *recorded, *checked));
}

}  // namespace

void add_check_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<MountedOptions>();
  CLI::App* command = app.add_subcommand("check", "pull the plug on any program, unmodified, on a mounted filesystem");
  add_mounted_options(*command, *options);
  command->footer(
      std::string(
          "The program starts in the root of the modelled disk, which is empty but for --from and --setup.\n"
          "Without --file, --tree, --expect or --check, every file must be found old or new, whole, and new\n"
          "once the program has exited. A checker's exit status 0 is fine; it starts in the crashed disk, finds\n"
          "the marks that were reached in $CRASHCUT_MARKS and the lines printed in $CRASHCUT_STDOUT (reading\n"
          "them decides). $CRASHCUT_CERTAIN has those that are certain without asking; who reads nothing else\n"
          "finds no lost commit, as whether a mark was reached is then never asked.\n\n"
          "Examples: crashcut check --file notes.txt -- nano notes.txt\n"
          "          crashcut check --setup ./make_db.sh --check ./verify.sh -- sqlite3 test.db \"insert ...\"\n\n") +
      kExitCodes);
  command->callback([command, options, &exit_code] {
    const auto code = check(*options, program_words(*command));
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
