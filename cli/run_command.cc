// crashcut run: every recovery of one program under one model.
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress_line.h"
#include "recovery/run_result.h"

namespace crashcut::cli {
namespace {

using result::Failure;

tl::expected<recovery::Checked, Failure> check_with_progress(const recovery::Plan& plan, const ReportOptions& reports) {
  ProgressLine line(reports.quiet);
  recovery::Hooks hooks = interruptible_hooks();
  hooks.on_progress = [&](const result::Progress& progress) { line.show(progress); };
  if (reports.is_stdout_taken()) hooks.stdout_fd = STDERR_FILENO;
  return recovery::check(plan, hooks);
}

tl::expected<int, Failure> run(Options& options, const std::vector<std::string>& words) {
  auto plan = make_plan(options);
  if (!plan) return tl::unexpected(plan.error());
  if (auto ok = check_reports(options.reports); !ok) return tl::unexpected(ok.error());
  const auto program = prepare_run(*plan, words[0]);
  if (!program) return tl::unexpected(program.error());
  plan->arguments.assign(words.begin() + 1, words.end());
  if (auto ok = open_results(options.reports, program->path()); !ok) return tl::unexpected(ok.error());
  const result::Head head = recovery::head_of("run", *plan, words);
  print_head(options.reports, head);
  const auto checked = check_with_progress(*plan, options.reports);
  if (!checked) return tl::unexpected(checked.error());
  return report(options.reports, recovery::result_of(*plan, head, *checked));
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "run a program's recovery on every state that a crash can leave");
  add_options(*command, *options);
  add_out_option(*command, options->reports, "keep the results there, with the program: for crashcut replay DIR");
  add_main_limit(*command, *options);
  add_recovery_limit(*command, *options);
  command->footer(
      std::string("prog is an executable with main() and crashcut_recover() (see crashcut.h), or its source\n"
                  "(.c, .cc, .cpp), which is compiled first. It starts on the modelled disk.\n\n"
                  "Example: crashcut run --data writeback --outcomes save.c notes.txt\n\n") +
      kExitCodes);
  command->callback([command, options, &exit_code] {
    const auto code = run(*options, program_words(*command));
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
