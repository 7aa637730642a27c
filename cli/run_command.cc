// crashcut run: every recovery of one program under one model.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/filesystem.hpp>

#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress_line.h"
#include "recovery/result/words.h"
#include "recovery/run.h"

namespace crashcut::cli {
namespace {

using result::Failure;
using result::wrong_use;
namespace fs = boost::filesystem;

// The common part of a new search and a resumed one. `before` is what the earlier search left; null: a new search.
tl::expected<int, Failure> search(ReportOptions reports, recovery::Plan& plan, const std::vector<std::string>& words,
                                  const search::Rest* before) {
  const result::Head head = recovery::head_of("run", plan, words);
  print_head(reports, head);
  if (reports.is_stdout_taken()) plan.main_stdout_fd = STDERR_FILENO;
  const auto executed = recovery::execute(plan);
  if (!executed) return tl::unexpected(executed.error());
  ProgressLine line(reports.quiet);
  const search::Hooks hooks{[&](const result::Progress& progress) { line.show(progress); }, is_interrupted};
  const SearchSignals signals;
  auto checked = recovery::check(*executed, plan, head, hooks, before);
  line.clear();
  if (!checked) return tl::unexpected(checked.error());
  keep_rest(reports, "run", checked->rest, checked->result);
  return report(reports, checked->result);
}

tl::expected<int, Failure> run(Options& options, const std::vector<std::string>& words) {
  auto plan = make_plan(options);
  if (!plan) return tl::unexpected(plan.error());
  if (auto ok = check_reports(options.reports); !ok) return tl::unexpected(ok.error());
  const auto program = prepare_run(*plan, words[0]);
  if (!program) return tl::unexpected(program.error());
  plan->arguments.assign(words.begin() + 1, words.end());
  if (auto ok = open_results(options.reports, program->path()); !ok) return tl::unexpected(ok.error());
  plan->known = known_tokens();
  return search(options.reports, *plan, words, nullptr);
}

// Goes on where a search stopped, in its directory. Bounds are those of this run.
tl::expected<int, Failure> resume(const Options& options, const std::string& directory) {
  ReportOptions reports = options.reports;
  if (auto ok = check_reports(reports); !ok) return tl::unexpected(ok.error());
  const auto text = read_rest_file(directory);
  if (!text) return tl::unexpected(text.error());
  auto stopped = recovery::read_rest(*text);
  if (!stopped) return wrong_use(fmt::format("{}: {}", directory, stopped.error()));
  recovery::Plan& plan = stopped->plan;
  const auto named = find_program(stopped->token, "", directory);
  if (!named) {
    return wrong_use(
        fmt::format("The program of this search, {}, is not found as it was: it has changed since, or it is elsewhere. "
                    "Search it anew.",
                    result::printable(stopped->token.program)));
  }
  const auto program = prepare_run(plan, *named);
  if (!program) return tl::unexpected(program.error());
  const auto bounds = make_plan(options);
  if (!bounds) return tl::unexpected(bounds.error());
  plan.jobs = bounds->jobs;
  plan.max_recoveries = bounds->max_recoveries;
  plan.time_limit = bounds->time_limit;
  plan.crashcut = bounds->crashcut;
  reports.directory = fs::canonical(directory).string();
  return search(reports, plan, stopped->words, &stopped->rest);
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "run a program's recovery on every state that a crash can leave");
  add_options(*command, *options);
  add_out_option(*command, options->reports, "keep the results there, with the program: for crashcut replay DIR");
  add_main_limit(*command, *options);
  add_recovery_limit(*command, *options);
  auto directory = std::make_shared<std::string>();
  add_resume_option(*command, *directory);
  command->footer(
      std::string("prog is an executable with main() and crashcut_recover() (see crashcut.h), or its source\n"
                  "(.c, .cc, .cpp), which is compiled first. It starts on the modelled disk.\n\n"
                  "Example: crashcut run --data writeback --outcomes save.c notes.txt\n\n") +
      kExitCodes);
  command->callback([command, options, directory, &exit_code] {
    const auto go = [&]() -> tl::expected<int, Failure> {
      if (directory->empty()) return run(*options, program_words(*command));
      if (auto ok = check_beside_resume(*command); !ok) return tl::unexpected(ok.error());
      return resume(*options, *directory);
    };
    const auto code = go();
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
