// crashcut compare: one program under several models, side by side.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <cerrno>
#include <cstring>
#include <set>

#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/kernel_check.h"
#include "cli/mounted_options.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress_line.h"
#include "persist/deadline.h"
#include "recovery/mounted/check.h"
#include "recovery/result/words.h"
#include "recovery/run.h"

namespace crashcut::cli {
namespace {

using recovery::Plan;
using result::Failure;

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

Failure under_model(const Failure& failure, const std::string& model) {
  return {failure.blame, fmt::format("{} (under {})", failure.sentence, model)};
}

// The first line names no single model.
void print_comparison_head(const ReportOptions& reports, result::Head head, std::size_t model_count) {
  head.model.text = result::count_text(model_count, "model", "models");
  print_head(reports, head);
}

// --time is that of the whole comparison: a model may take its share of what is left.
class TimeShares {
 public:
  using Seconds = std::chrono::duration<double>;
  TimeShares(Seconds limit, std::size_t model_count) : deadline_(limit.count()), models_left_(model_count) {}
  // Of the next model; 0: there is no bound.
  Seconds next() { return Seconds(deadline_.seconds_left() / static_cast<double>(models_left_--)); }

 private:
  persist::Deadline deadline_;
  std::size_t models_left_;
};

// Only the first execution's words are shown: the others say the same.
tl::expected<std::vector<result::Result>, Failure> check_all(std::vector<Plan>& plans,
                                                             const std::vector<std::string>& words, bool is_quiet) {
  std::vector<result::Result> rows;
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  TimeShares shares(plans.front().time_limit, plans.size());
  for (Plan& plan : plans) {
    if (is_interrupted()) break;
    plan.main_stdout_fd = nowhere;
    if (!rows.empty()) plan.main_stderr_fd = nowhere;
    const result::Head head = recovery::head_of("compare", plan, words);
    plan.time_limit = shares.next();
    const auto executed = recovery::execute(plan);
    if (!executed) return tl::unexpected(under_model(executed.error(), head.model.text));
    ProgressLine line(is_quiet);
    const SearchSignals signals;
    auto checked = recovery::check(*executed, plan, head, line.hooks());
    if (!checked) return tl::unexpected(under_model(checked.error(), head.model.text));
    rows.push_back(std::move(checked->result));
  }
  return rows;
}

tl::expected<int, Failure> compare(const Options& options, const std::vector<std::string>& words) {
  auto plans = make_plans(options);
  if (!plans) return tl::unexpected(plans.error());
  const auto program = prepare_run(plans->front(), words[0]);
  if (!program) return tl::unexpected(program.error());
  const Plan prepared = plans->front();
  for (Plan& plan : *plans) {
    const fusefs::ModelOptions model = plan.model;
    plan = prepared;
    plan.model = model;
    plan.arguments.assign(words.begin() + 1, words.end());
  }
  print_comparison_head(options.reports, recovery::head_of("compare", plans->front(), words), plans->size());
  const auto rows = check_all(*plans, words, options.reports.quiet);
  if (!rows) return tl::unexpected(rows.error());
  return report_comparison(options.reports, *rows, plans->size());
}

// A program with persistent memory under the models of that; files are on one disk.
tl::expected<int, Failure> compare_memory(const Options& options, const std::vector<std::string>& words) {
  using pmem::Persistency;
  auto plan = make_plan(options);
  if (!plan) return tl::unexpected(plan.error());
  plan->memory.emplace();
  const auto program = prepare_run(*plan, words[0]);
  if (!program) return tl::unexpected(program.error());
  plan->arguments.assign(words.begin() + 1, words.end());
  std::vector<Plan> plans;
  for (const pmem::MemoryModel& model :
       {pmem::MemoryModel{}, pmem::MemoryModel{.atomic_bytes = 16}, pmem::MemoryModel{.has_tearing = false},
        pmem::MemoryModel{.persistency = Persistency::kEadr}, pmem::MemoryModel{.persistency = Persistency::kStrict}}) {
    plans.push_back(*plan);
    plans.back().memory = model;
  }
  print_comparison_head(options.reports, recovery::head_of("compare", plans.front(), words), plans.size());
  const auto rows = check_all(plans, words, options.reports.quiet);
  if (!rows) return tl::unexpected(rows.error());
  return report_comparison(options.reports, *rows, plans.size());
}

// One model of several. A directory of images a model, by its place in the table.
tl::expected<result::Result, Failure> check_model(mounted::CheckPlan plan, const fusefs::ModelOptions& model,
                                                  const result::Head& head, mounted::Recorded& recorded,
                                                  std::size_t number, bool is_quiet) {
  ProgressLine line(is_quiet);
  plan.model = model;
  plan.search.wants_all = true;
  if (!plan.image_directory.empty()) {
    plan.image_directory += fmt::format("/{}", number);
    if (mkdir(plan.image_directory.c_str(), 0755) != 0)
      return result::wrong_use(fmt::format("Cannot make {}: {}.", plan.image_directory, std::strerror(errno)));
  }
  auto checked = mounted::check(plan, head, recorded, line.hooks());
  if (!checked) return tl::unexpected(under_model(checked.error(), fusefs::describe(model)));
  return std::move(checked->result);
}

// The same on a filesystem of the kernel's, in a directory of its own below the results.
tl::expected<result::Result, Failure> check_on_kernel(const MountedPlans& plans, const kernel::DiskPlan& disk,
                                                      const std::vector<std::string>& words,
                                                      const mounted::Recorded& recorded, std::size_t number,
                                                      bool is_quiet) {
  ProgressLine line(is_quiet);
  kernel::CheckPlan plan{plans.check, disk};
  mounted::RecordPlan program = plans.record;
  plan.common.search.wants_all = true;
  plan.common.directory = program.directory = fmt::format("{}/kernel-{}", plans.check.directory, number);
  boost::system::error_code error;
  boost::filesystem::create_directory(program.directory, error);
  if (!error)
    boost::filesystem::copy_file(mounted::trace_of(plans.check.directory), mounted::trace_of(program.directory), error);
  if (error) return result::wrong_use(fmt::format("Cannot make {}: {}.", program.directory, error.message()));
  return kernel::check(plan, program, kernel::head_of(plan, words), recorded, line.hooks());
}

// Which filesystems of the kernel's are compared, and how far.
struct KernelRows {
  std::vector<std::string> filesystems;
  std::uint32_t runs = 16, subsets = 64;
};

// Recorded once: a trace knows no model.
tl::expected<int, Failure> compare_mounted(const MountedOptions& options, const KernelRows& kernels,
                                           const std::vector<std::string>& words) {
  std::vector<kernel::DiskPlan> disks;
  DeviceOptions device;
  device.runs = kernels.runs;
  device.subsets = kernels.subsets;
  for (const std::string& filesystem : kernels.filesystems) {
    const auto disk = disk_plan_of(options, device, filesystem, false);
    if (!disk) return tl::unexpected(disk.error());
    disks.push_back(*disk);
  }
  const auto models = make_plans(options.common);
  if (!models) return tl::unexpected(models.error());
  MountedOptions first = options;
  first.common.profiles = {std::string(fusefs::to_text(models->front().model.profile))};
  first.common.data_modes = {std::string(fusefs::to_text(models->front().model.data))};
  auto plans = make_mounted_plans(first, words);
  if (!plans) return tl::unexpected(plans.error());
  ReportOptions reports = options.common.reports;
  reports.directory = plans->check.directory;
  plans->record.is_stdout_taken = reports.is_stdout_taken();
  const result::Head head = mounted::head_of("compare", plans->check, words);
  print_comparison_head(reports, head, models->size() + disks.size());
  std::chrono::duration<double>& limit = plans->check.search.time_limit;
  TimeShares shares(limit, models->size() + disks.size());
  auto recorded = record_program(*plans);
  if (!recorded) return tl::unexpected(recorded.error());
  if (!reports.quiet) print(reports.out(), mounted::recorded_text(*recorded, plans->check));
  std::vector<result::Result> rows;
  const SearchSignals signals;
  for (const Plan& model : *models) {
    if (is_interrupted()) break;
    limit = shares.next();
    auto row = check_model(plans->check, model.model, head, *recorded, rows.size() + 1, reports.quiet);
    if (!row) return tl::unexpected(row.error());
    rows.push_back(std::move(*row));
  }
  for (const kernel::DiskPlan& disk : disks) {
    if (is_interrupted()) break;
    limit = shares.next();
    auto row = check_on_kernel(*plans, disk, words, *recorded, rows.size() + 1, reports.quiet);
    if (!row)
      return tl::unexpected(
          Failure{row.error().blame, fmt::format("{} (under {})", row.error().sentence, disk.filesystem.text())});
    rows.push_back(std::move(*row));
  }
  return report_comparison(reports, rows, models->size() + disks.size());
}

}  // namespace

void add_compare_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<MountedOptions>();
  CLI::App* command = app.add_subcommand("compare", "the same program under every journaling mode, in one table");
  add_mounted_options(*command, *options);
  auto kernels = std::make_shared<KernelRows>();
  command
      ->add_option("--fs", kernels->filesystems,
                   "also on this filesystem of the kernel's, as for crashcut check: kernel:ext4, kernel:xfs, "
                   "kernel:btrfs; may be given more than once")
      ->type_name("kernel:TYPE[:OPTIONS]")
      ->allow_extra_args(false);
  command->add_option("--runs", kernels->runs, "of the program on each --fs, as for crashcut check (default: 16)")
      ->type_name("N")
      ->check(CLI::Range(1u, 100000u));
  command->add_option("--subsets", kernels->subsets, "images between two flushes on each --fs, at most (default: 64)")
      ->type_name("N")
      ->check(CLI::Range(2u, 1u << 20));
  add_main_limit(*command, options->common);
  add_recovery_limit(*command, options->common);
  auto has_memory = std::make_shared<bool>(false);
  command->add_flag("--pmem", *has_memory, "a program with persistent memory, as for crashcut pmem, under its models");
  command->footer(
      std::string("With an option of crashcut check, or for a program that is found in PATH, any program is compared,\n"
                  "on the mounted filesystem: recorded once, checked under each model. Else prog has main() and\n"
                  "crashcut_recover(), as for crashcut run.\n\n"
                  "--profile and --data may be given more than once, and narrow the table to what they name.\n"
                  "With ext4, data=ordered is also shown with noauto_da_alloc and with nodelalloc.\n"
                  "--time is that of the whole comparison: models share it.\n\n"
                  "Examples: crashcut compare --profile ext4 --profile paper save.c\n"
                  "          crashcut compare --file notes.txt -- nano notes.txt\n"
                  "          crashcut compare --fs kernel:ext4 --fs kernel:xfs --file f -- cp a f\n\n") +
      kExitCodes + "\nA violation under any of the models is a violation.");
  command->callback([command, options, kernels, has_memory, &exit_code] {
    const ReportOptions& reports = options->common.reports;
    if (auto ok = check_reports(reports); !ok) {
      exit_code = report_failure(ok.error());
      return;
    }
    if (*has_memory) {
      const auto code = compare_memory(options->common, program_words(*command));
      exit_code = code ? *code : report_failure(code.error());
      return;
    }
    for (const char* given : {"--runs", "--subsets"}) {
      if (command->count(given) > 0 && kernels->filesystems.empty())
        throw CLI::ParseError(fmt::format("{} is for --fs kernel:....", given), 2);
    }
    if (!kernels->filesystems.empty() || asks_for_mount(*options, program_words(*command))) {
      for (const char* limit : {"--main-limit", "--recovery-limit"}) {
        if (command->count(limit) == 0) continue;
        throw CLI::ParseError(fmt::format("{} is for a program with crashcut_recover(); on the mounted filesystem "
                                          "there are --program-limit and --check-limit.",
                                          limit),
                              2);
      }
      const auto code = compare_mounted(*options, *kernels, program_words(*command));
      exit_code = code ? *code : report_failure(code.error());
      return;
    }
    const auto code = compare(options->common, program_words(*command));
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
