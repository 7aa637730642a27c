// crashcut check: pulls the plug on any program, unmodified, on a mounted filesystem.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <fstream>

#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/json_file.h"
#include "cli/mounted_options.h"
#include "cli/options.h"
#include "cli/progress_line.h"
#include "recovery/mounted/report.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using mounted::Failure;

void print(std::FILE* out, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), out);
  std::fflush(out);
}

tl::expected<mounted::CheckResult, Failure> check_with_progress(const mounted::CheckPlan& plan) {
  ProgressLine line;
  mounted::PoolHooks hooks;
  hooks.is_interrupted = is_interrupted;
  hooks.on_progress = [&](const mounted::PoolProgress& progress) {
    line.show(recovery::Progress{progress.seconds, progress.recoveries, progress.violations, progress.fraction});
  };
  const SearchSignals signals;
  return mounted::check(plan, hooks);
}

tl::expected<void, Failure> write_file(const std::string& path, std::string_view text) {
  if (auto ok = write_json_file(path, text); !ok)
    return tl::unexpected(Failure{ok.error().blame == inprocess::Failure::Blame::kUser, ok.error().sentence});
  return {};
}

tl::expected<int, Failure> check(const MountedOptions& options, const std::vector<std::string>& words) {
  if (!options.junit_file.empty() && options.junit_file == options.common.json_file) {
    const std::string where = options.junit_file == "-" ? "stdout" : options.junit_file;
    return tl::unexpected(
        Failure{true, fmt::format("--json and --junit would both be written to {}: name two places.", where)});
  }
  for (const std::string& path : {options.common.json_file, options.junit_file}) {
    if (auto ok = check_json_file(path); !ok)
      return tl::unexpected(Failure{ok.error().blame == inprocess::Failure::Blame::kUser, ok.error().sentence});
  }
  auto plans = make_mounted_plans(options, words);
  if (!plans) return tl::unexpected(plans.error());
  mounted::CheckPlan& plan = plans->check;
  plans->record.is_stdout_taken = options.common.json_file == "-" || options.junit_file == "-";
  std::FILE* out = plans->record.is_stdout_taken ? stderr : stdout;
  print(out, mounted::report_start("check", words, fusefs::describe(plan.model), plan));
  auto recorded = record_program(*plans);
  if (!recorded) return tl::unexpected(recorded.error());
  print(out, mounted::report_recorded(*recorded, plan));
  const auto result = check_with_progress(plan);
  if (!result) return tl::unexpected(result.error());
  if (options.outcomes) print(out, mounted::report_outcomes(*result));
  if (result->counterexample)
    print(out, mounted::report_violation(*result->counterexample, false) + mounted::report_classes(*result) + "\n");
  const std::string json =
      mounted::to_json(plan, words, *recorded, *result).dump(2, ' ', false, mounted::Json::error_handler_t::replace) +
      "\n";
  const std::string junit = mounted::to_junit(words, *result);
  tl::expected<void, Failure> written;
  const auto write = [&](const std::string& path, std::string_view text) {
    if (auto ok = write_file(path, text); !ok && written) written = ok;
  };
  write(plan.directory + "/result.json", json);
  write(plan.directory + "/junit.xml", junit);
  if (!result->token.empty()) write(plan.directory + "/token", result->token + "\n");
  write(options.common.json_file, json);
  write(options.junit_file, junit);
  // Whatever could not be written, the verdict is said.
  print(out, mounted::report_end(*result, our_name()));
  if (!written) return tl::unexpected(written.error());
  return recovery::exit_code(result->verdict);
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
    exit_code = code ? *code : report_failure(as_failure(code.error()));
  });
}

}  // namespace crashcut::cli
