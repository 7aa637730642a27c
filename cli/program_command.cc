#include "cli/program_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/filesystem.hpp>

#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/machines.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress_line.h"
#include "recovery/result/words.h"
#include "recovery/run.h"
#include "recovery/run_token.h"

namespace crashcut::cli {
namespace {

using result::Failure;
using result::wrong_use;
namespace fs = boost::filesystem;

// The program has threads: their schedules are searched, too.
tl::expected<int, Failure> search_threads(const ReportOptions& reports, const recovery::Plan& plan,
                                          const std::string& schedules, const std::vector<std::string>& words) {
  recovery::ThreadPlan threads;
  static_cast<recovery::Plan&>(threads) = plan;
  threads.merges_logs = false;
  if (auto ok = read_schedules(schedules, threads); !ok) return tl::unexpected(ok.error());
  return search_schedules(reports, threads, words);
}

// All that is the same for a search that begins and one that goes on. `before` is what an earlier one left.
tl::expected<int, Failure> search(ReportOptions reports, recovery::Plan& plan, const std::vector<std::string>& words,
                                  const search::Rest* before) {
  const char* command = recovery::command_of(plan);
  const result::Head head = recovery::head_of(command, plan, words);
  print_head(reports, head);
  if (reports.is_stdout_taken()) plan.main_stdout_fd = STDERR_FILENO;
  const auto executed = recovery::execute(plan);
  if (!executed) return tl::unexpected(executed.error());
  if (executed->wants_threads) return search_threads(reports, plan, "one", words);
  ProgressLine line(reports.quiet);
  const SearchSignals signals;
  auto checked = recovery::check(*executed, plan, head, line.hooks(), before);
  line.clear();
  if (!checked && executed->session->wants_threads()) return search_threads(reports, plan, "one", words);
  if (!checked) return tl::unexpected(checked.error());
  keep_rest(reports, command, checked->rest, checked->result);
  return report(reports, checked->result);
}

tl::expected<int, Failure> run(const ProgramCommand& what, const std::string& expected, Options& options,
                               const std::vector<std::string>& words) {
  auto plan = make_plan(options);
  if (!plan) return tl::unexpected(plan.error());
  plan->expects_prefix = expected == "prefix";
  plan->wants_mends = true;
  if (what.complete) {
    if (auto ok = what.complete(*plan); !ok) return tl::unexpected(ok.error());
  }
  if (auto ok = check_reports(options.reports); !ok) return tl::unexpected(ok.error());
  const auto program = prepare_run(*plan, words[0]);
  if (!program) return tl::unexpected(program.error());
  plan->arguments.assign(words.begin() + 1, words.end());
  if (auto ok = open_results(options.reports, {program->path()}); !ok) return tl::unexpected(ok.error());
  plan->known = known_tokens();
  if (what.schedules != nullptr && !what.schedules->empty())
    return search_threads(options.reports, *plan, *what.schedules, words);
  return search(options.reports, *plan, words, nullptr);
}

// Goes on where a search stopped, in its directory. Bounds are those of this run.
tl::expected<int, Failure> resume(const ProgramCommand& what, const Options& options, const std::string& directory) {
  ReportOptions reports = options.reports;
  if (auto ok = check_reports(reports); !ok) return tl::unexpected(ok.error());
  const auto text = read_rest_file(directory);
  if (!text) return tl::unexpected(text.error());
  if (is_rest_of_schedules(*text)) return resume_schedules(what.name, directory, options, 0);
  auto stopped = recovery::read_rest(*text);
  if (!stopped) return wrong_use(fmt::format("{}: {}", directory, stopped.error()));
  recovery::Plan& plan = stopped->plan;
  if (recovery::command_of(plan) != what.name) {
    return wrong_use(fmt::format("{} has a search of crashcut {}: crashcut {} goes on with it.", directory,
                                 recovery::command_of(plan), recovery::command_of(plan)));
  }
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
  plan.wants_mends = true;
  plan.wants_states = true;  // they go into the directory
  plan.wants_all_states = !reports.html_file.empty();
  reports.directory = fs::canonical(directory).string();
  return search(reports, plan, stopped->words, &stopped->rest);
}

}  // namespace

void add_program_command(CLI::App& app, int& exit_code, const ProgramCommand& what) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(what.name, what.description);
  if (what.add_options) what.add_options(*command);
  add_options(*command, *options);
  add_out_option(*command, options->reports, "keep the results there, with the program: for crashcut replay DIR");
  add_main_limit(*command, *options);
  add_recovery_limit(*command, *options);
  auto expected = std::make_shared<std::string>();
  command
      ->add_option(
          "--expect", *expected,
          "prefix: what recovery prints is what it prints after the first k operations, or k + 1, where k marks "
          "were reached")
      ->type_name("prefix")
      ->check(CLI::IsMember({"prefix"}).description(""));
  auto directory = std::make_shared<std::string>();
  add_resume_option(*command, *directory);
  command->footer(what.footer + kExitCodes);
  command->callback([command, options, expected, directory, what, &exit_code] {
    const auto go = [&]() -> tl::expected<int, Failure> {
      if (directory->empty()) return run(what, *expected, *options, program_words(*command));
      if (auto ok = check_beside_resume(*command); !ok) return tl::unexpected(ok.error());
      return resume(what, *options, *directory);
    };
    const auto code = go();
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
