// crashcut run: every recovery of one program under one model.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress_line.h"
#include "recovery/json_report.h"
#include "recovery/report.h"

namespace crashcut::cli {
namespace {

using inprocess::Failure;

struct RunOptions {
  Options common;
  bool outcomes = false;
};

// "crashcut run save.c 3"
std::string command_text(const std::vector<std::string>& words) {
  std::string text = "crashcut run";
  for (const std::string& word : words) text += " " + word;
  return text;
}

void print(std::FILE* out, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), out);
  std::fflush(out);
}

tl::expected<recovery::Result, Failure> check_with_progress(const recovery::Plan& plan, bool is_stdout_taken) {
  ProgressLine line;
  recovery::Hooks hooks = interruptible_hooks();
  hooks.on_progress = [&](const recovery::Progress& progress) { line.show(progress); };
  if (is_stdout_taken) hooks.stdout_fd = STDERR_FILENO;
  return recovery::check(plan, hooks);
}

tl::expected<int, Failure> run(const RunOptions& options, const std::vector<std::string>& words) {
  auto plan = make_plan(options.common);
  if (!plan) return tl::unexpected(plan.error());
  if (auto ok = check_json_file(options.common.json_file); !ok) return tl::unexpected(ok.error());
  const auto runtime = find_runtime();
  if (!runtime) return tl::unexpected(runtime.error());
  const auto program = Program::prepare(words[0]);
  if (!program) return tl::unexpected(program.error());
  plan->program = program->path();
  plan->executable = program->executable();
  plan->arguments.assign(words.begin() + 1, words.end());
  plan->runtime = *runtime;

  // JSON on stdout is alone there.
  const bool is_stdout_taken = options.common.json_file == "-";
  std::FILE* out = is_stdout_taken ? stderr : stdout;
  print(out, recovery::report_start(command_text(words), *plan));
  const auto result = check_with_progress(*plan, is_stdout_taken);
  if (!result) return tl::unexpected(result.error());
  if (options.outcomes) print(out, recovery::report_outcomes(result->survey));
  if (result->verdict == recovery::Verdict::kViolation) print(out, recovery::report_violation(*result));
  const bool is_long = options.outcomes || result->verdict == recovery::Verdict::kViolation;
  print(out, (is_long ? "\n" : "") + recovery::report_end(*plan, *result));
  // Last: a file that cannot be written must not hide what was found.
  if (!options.common.json_file.empty()) {
    const std::string json = recovery::dump(recovery::to_json(*plan, *result));
    if (auto ok = write_json_file(options.common.json_file, json); !ok) return tl::unexpected(ok.error());
  }
  return recovery::exit_code(result->verdict);
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "run a program's recovery on every state that a crash can leave");
  add_options(*command, options->common);
  add_main_limit(*command, options->common);
  add_recovery_limit(*command, options->common);
  command->add_flag("--outcomes", options->outcomes, "list every distinct output of recovery, and how often it came");
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
