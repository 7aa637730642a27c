// crashcut compare: one program under several models, side by side.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/json_file.h"
#include "cli/mounted_options.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress_line.h"
#include "recovery/compare_report.h"
#include "recovery/json_report.h"
#include "recovery/mounted/compare_report.h"
#include "recovery/mounted/report.h"
#include "recovery/report.h"

namespace crashcut::cli {
namespace {

using inprocess::Failure;
using recovery::Comparison;
using recovery::Plan;

// The models in the order of the table: every profile with every mode, and ext4's allocation options beside its
// default mode. One that -o made equal to another is left out.
tl::expected<std::vector<Plan>, Failure> make_plans(const Options& options) {
  const std::vector<std::string> kAllModes = {"ordered", "journal", "writeback"};
  std::vector<Plan> plans;
  std::set<std::string> seen;
  auto add = [&](const Plan& plan) {
    if (seen.insert(fusefs::describe(plan.model)).second) plans.push_back(plan);
  };
  for (const std::string& profile : options.profiles.empty() ? std::vector<std::string>{"ext4"} : options.profiles) {
    for (const std::string& mode : options.data_modes.empty() ? kAllModes : options.data_modes) {
      auto plan = make_plan(options, profile, mode);
      if (!plan) return tl::unexpected(plan.error());
      add(*plan);
      if (plan->model.profile != fusefs::ProfileName::kExt4 || plan->model.data != fusefs::DataMode::kOrdered) continue;
      Plan variant = *plan;
      variant.model.auto_da_alloc = false;
      add(variant);
      variant = *plan;
      variant.model.delalloc = false;
      add(variant);
    }
  }
  return plans;
}

// Only the first execution's words are shown: the others say the same.
tl::expected<std::vector<Comparison>, Failure> check_all(std::vector<Plan> plans) {
  std::vector<Comparison> rows;
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  for (Plan& plan : plans) {
    if (is_interrupted()) break;
    ProgressLine line;
    recovery::Hooks hooks = interruptible_hooks();
    hooks.on_progress = [&](const recovery::Progress& progress) { line.show(progress); };
    hooks.stdout_fd = nowhere;
    if (!rows.empty()) hooks.stderr_fd = nowhere;
    auto result = recovery::check(plan, hooks);
    if (!result) {
      const std::string sentence = fmt::format("{} (under {})", result.error().sentence, fusefs::describe(plan.model));
      return tl::unexpected(Failure{result.error().blame, sentence});
    }
    rows.push_back(Comparison{std::move(plan), std::move(*result)});
  }
  return rows;
}

tl::expected<void, Failure> write_json(const std::string& path, const std::vector<Comparison>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Comparison& row : rows) list.push_back(recovery::to_json(row.plan, row.result));
  return write_json_file(path, recovery::dump(list));
}

tl::expected<int, Failure> compare(const Options& options, const std::vector<std::string>& words) {
  auto plans = make_plans(options);
  if (!plans) return tl::unexpected(plans.error());
  if (auto ok = check_json_file(options.json_file); !ok) return tl::unexpected(ok.error());
  const auto runtime = find_runtime();
  if (!runtime) return tl::unexpected(runtime.error());
  const auto program = Program::prepare(words[0]);
  if (!program) return tl::unexpected(program.error());
  for (Plan& plan : *plans) {
    plan.program = program->path();
    plan.executable = program->executable();
    plan.arguments.assign(words.begin() + 1, words.end());
    plan.runtime = *runtime;
  }
  const std::size_t plan_count = plans->size();
  std::FILE* out = options.json_file == "-" ? stderr : stdout;
  fmt::print(out, "{}", recovery::report_comparison_start(words, plans->front(), plan_count));
  std::fflush(out);
  const auto rows = check_all(std::move(*plans));
  if (!rows) return tl::unexpected(rows.error());
  fmt::print(out, "{}", recovery::report_comparison(*rows));
  fmt::print(out, "{}", recovery::report_comparison_end(*rows, plan_count));
  std::fflush(out);
  if (auto ok = options.json_file.empty() ? tl::expected<void, Failure>{} : write_json(options.json_file, *rows); !ok) {
    return tl::unexpected(ok.error());
  }
  return recovery::exit_code(recovery::verdict_of(*rows, plan_count));
}

// Recorded once: a trace knows no model.
tl::expected<int, mounted::Failure> compare_mounted(const MountedOptions& options,
                                                    const std::vector<std::string>& words) {
  if (!options.junit_file.empty())
    return tl::unexpected(
        mounted::Failure{true, "--junit is for crashcut check: a comparison is no test. --json has all of it."});
  const auto models = make_plans(options.common);
  if (!models)
    return tl::unexpected(mounted::Failure{models.error().blame == Failure::Blame::kUser, models.error().sentence});
  MountedOptions first = options;
  first.common.profiles = {std::string(fusefs::to_text(models->front().model.profile))};
  first.common.data_modes = {std::string(fusefs::to_text(models->front().model.data))};
  auto plans = make_mounted_plans(first, words);
  if (!plans) return tl::unexpected(plans.error());
  std::FILE* out = options.common.json_file == "-" ? stderr : stdout;
  plans->record.is_stdout_taken = options.common.json_file == "-";
  fmt::print(
      out, "{}",
      mounted::report_start("compare", words, recovery::count_text(models->size(), "model", "models"), plans->check));
  std::fflush(out);
  const auto recorded = record_program(*plans);
  if (!recorded) return tl::unexpected(recorded.error());
  fmt::print(out, "{}", mounted::report_recorded(*recorded, plans->check));
  std::vector<mounted::Comparison> rows;
  mounted::Json list = mounted::Json::array();
  const SearchSignals signals;
  for (const Plan& model : *models) {
    if (is_interrupted()) break;
    ProgressLine line;
    mounted::PoolHooks hooks;
    hooks.is_interrupted = is_interrupted;
    hooks.on_progress = [&](const mounted::PoolProgress& progress) {
      line.show(recovery::Progress{progress.seconds, progress.recoveries, progress.violations, progress.fraction});
    };
    mounted::CheckPlan plan = plans->check;
    plan.model = model.model;
    plan.wants_all = true;
    // A directory a model, by its place in the table.
    if (!plan.image_directory.empty()) {
      plan.image_directory += fmt::format("/{}", rows.size() + 1);
      if (mkdir(plan.image_directory.c_str(), 0755) != 0)
        return tl::unexpected(
            mounted::Failure{true, fmt::format("Cannot make {}: {}.", plan.image_directory, std::strerror(errno))});
    }
    auto result = mounted::check(plan, hooks);
    if (!result)
      return tl::unexpected(
          mounted::Failure{result.error().is_users,
                           fmt::format("{} (under {})", result.error().sentence, fusefs::describe(plan.model))});
    list.push_back(mounted::to_json(plan, words, *recorded, *result));
    rows.push_back(mounted::Comparison{std::move(plan), std::move(*result)});
  }
  fmt::print(out, "{}", mounted::report_comparison(rows));
  for (const std::string& path : {options.common.json_file, plans->check.directory + "/result.json"}) {
    auto ok = write_json_file(path, list.dump(2, ' ', false, mounted::Json::error_handler_t::replace) + "\n");
    if (!ok) return tl::unexpected(mounted::Failure{ok.error().blame == Failure::Blame::kUser, ok.error().sentence});
  }
  fmt::print(out, "{}", mounted::report_comparison_end(rows, models->size()));
  return recovery::exit_code(mounted::verdict_of(rows, models->size()));
}

}  // namespace

void add_compare_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<MountedOptions>();
  CLI::App* command = app.add_subcommand("compare", "the same program under every journaling mode, in one table");
  add_mounted_options(*command, *options);
  add_main_limit(*command, options->common);
  add_recovery_limit(*command, options->common);
  command->footer(
      std::string(
          "With an option of crashcut check, or for a program that is found in PATH, any program is compared, on the\n"
          "mounted filesystem: recorded once, checked under each model. Else prog has main() and\n"
          "crashcut_recover(), as for crashcut run.\n\n"
          "--profile and --data may be given more than once, and narrow the table to what they name.\n"
          "With ext4, data=ordered is also shown with noauto_da_alloc and with nodelalloc.\n\n"
          "Examples: crashcut compare --profile ext4 --profile paper save.c\n"
          "          crashcut compare --file notes.txt -- nano notes.txt\n\n") +
      kExitCodes + "\nA violation under any of the models is a violation.");
  command->callback([command, options, &exit_code] {
    if (asks_for_mount(*options, program_words(*command))) {
      for (const char* limit : {"--main-limit", "--recovery-limit"}) {
        if (command->count(limit) == 0) continue;
        throw CLI::ParseError(fmt::format("{} is for a program with crashcut_recover(); on the mounted filesystem "
                                          "there are --program-limit and --check-limit.",
                                          limit),
                              2);
      }
      const auto code = compare_mounted(*options, program_words(*command));
      exit_code = code ? *code : report_failure(as_failure(code.error()));
      return;
    }
    const auto code = compare(options->common, program_words(*command));
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
