// crashcut compare: one program under several models, side by side.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>

#include "cli/commands.h"
#include "cli/comparison.h"
#include "cli/interrupts.h"
#include "cli/kernel_check.h"
#include "cli/mounted_options.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress_line.h"
#include "recovery/mounted/check.h"
#include "recovery/result/words.h"
#include "recovery/run.h"

namespace crashcut::cli {
namespace {

using recovery::Plan;
using result::Failure;
using result::wrong_use;

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

// What the user asked for.
struct CompareOptions {
  MountedOptions mounted;
  std::vector<std::string> filesystems;  // of the kernel's
  std::uint32_t runs = 16, subsets = 64;
  bool has_memory = false;
};

// One comparison, begun or gone on with.
class Comparison {
 public:
  // `rests` are those of the rows that an earlier run had begun.
  Comparison(ReportOptions reports, std::vector<std::string> command_words, std::vector<std::string> rests)
      : reports_(std::move(reports)), command_words_(std::move(command_words)), rests_(std::move(rests)) {}

  ReportOptions& reports() { return reports_; }
  // What an earlier run left of the next row; empty: nothing.
  std::string next_rest() const { return rows_.size() < rests_.size() ? rests_[rows_.size()] : ""; }
  std::size_t row_count() const { return rows_.size(); }
  void add(result::Result result, std::string rest) { rows_.push_back({std::move(result), std::move(rest)}); }

  tl::expected<int, Failure> report(std::size_t expected_count) {
    std::string left;
    if (is_unfinished(rows_, expected_count)) {
      StoppedComparison stopped{command_words_, boost::filesystem::current_path().string(), {}};
      for (const ComparedRow& row : rows_) stopped.rests.push_back(row.rest);
      left = encode(stopped);
    }
    std::vector<result::Result> rows;
    for (ComparedRow& row : rows_) rows.push_back(std::move(row.result));
    keep_rest(reports_, "compare", left, rows);
    return report_comparison(reports_, rows, expected_count);
  }

 private:
  ReportOptions reports_;
  std::vector<std::string> command_words_, rests_;
  std::vector<ComparedRow> rows_;
};

tl::unexpected<Failure> cannot_read(const std::string& why) {
  return wrong_use(fmt::format("What was left of the comparison cannot be read: {}", why));
}

// Of one row; null: it begins.
tl::expected<std::optional<search::Rest>, Failure> rest_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  auto rest = search::decode_rest(text);
  if (!rest) return cannot_read(rest.error());
  return std::move(*rest);
}

// Only the first execution's words are shown: the others say the same.
tl::expected<int, Failure> check_all(Comparison& comparison, std::vector<Plan>& plans,
                                     const std::vector<std::string>& words) {
  print_comparison_head(comparison.reports(), recovery::head_of("compare", plans.front(), words), plans.size());
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  TimeShares shares(plans.front().time_limit, plans.size());
  for (Plan& plan : plans) {
    if (is_interrupted()) break;
    plan.main_stdout_fd = nowhere;
    if (comparison.row_count() > 0) plan.main_stderr_fd = nowhere;
    plan.keeps_finished = true;
    const result::Head head = recovery::head_of("compare", plan, words);
    plan.time_limit = shares.next();
    const auto before = rest_of(comparison.next_rest());
    if (!before) return tl::unexpected(before.error());
    const auto executed = recovery::execute(plan);
    if (!executed) return tl::unexpected(under_model(executed.error(), head.model.text));
    ProgressLine line(comparison.reports().quiet);
    const SearchSignals signals;
    auto checked = recovery::check(*executed, plan, head, line.hooks(), before->has_value() ? &**before : nullptr);
    if (!checked) return tl::unexpected(under_model(checked.error(), head.model.text));
    comparison.add(std::move(checked->result), std::move(checked->rest));
  }
  return comparison.report(plans.size());
}

tl::expected<int, Failure> compare_programs(Comparison& comparison, const CompareOptions& options,
                                            const std::vector<std::string>& words) {
  auto plans = make_plans(options.mounted.common);
  if (!plans) return tl::unexpected(plans.error());
  const auto program = prepare_run(plans->front(), words[0]);
  if (!program) return tl::unexpected(program.error());
  if (auto ok = open_results(comparison.reports(), {program->path()}); !ok) return tl::unexpected(ok.error());
  const Plan prepared = plans->front();
  for (Plan& plan : *plans) {
    const fusefs::ModelOptions model = plan.model;
    plan = prepared;
    plan.model = model;
    plan.arguments.assign(words.begin() + 1, words.end());
  }
  return check_all(comparison, *plans, words);
}

// A program with persistent memory under the models of that; files are on one disk.
tl::expected<int, Failure> compare_memory(Comparison& comparison, const CompareOptions& options,
                                          const std::vector<std::string>& words) {
  using pmem::Persistency;
  auto plan = make_plan(options.mounted.common);
  if (!plan) return tl::unexpected(plan.error());
  plan->memory.emplace();
  const auto program = prepare_run(*plan, words[0]);
  if (!program) return tl::unexpected(program.error());
  if (auto ok = open_results(comparison.reports(), {program->path()}); !ok) return tl::unexpected(ok.error());
  plan->arguments.assign(words.begin() + 1, words.end());
  std::vector<Plan> plans;
  for (const pmem::MemoryModel& model :
       {pmem::MemoryModel{}, pmem::MemoryModel{.atomic_bytes = 16}, pmem::MemoryModel{.has_tearing = false},
        pmem::MemoryModel{.persistency = Persistency::kEadr}, pmem::MemoryModel{.persistency = Persistency::kStrict}}) {
    plans.push_back(*plan);
    plans.back().memory = model;
  }
  return check_all(comparison, plans, words);
}

// One model of several. A directory of images a model, by its place in the table.
tl::expected<void, Failure> check_model(Comparison& comparison, mounted::CheckPlan plan,
                                        const fusefs::ModelOptions& model, const result::Head& head,
                                        mounted::Recorded& recorded) {
  ProgressLine line(comparison.reports().quiet);
  plan.model = model;
  plan.search.wants_all = plan.search.keeps_finished = true;
  if (!plan.image_directory.empty()) {
    plan.image_directory += fmt::format("/{}", comparison.row_count() + 1);
    if (mkdir(plan.image_directory.c_str(), 0755) != 0 && errno != EEXIST)
      return wrong_use(fmt::format("Cannot make {}: {}.", plan.image_directory, std::strerror(errno)));
  }
  const auto before = rest_of(comparison.next_rest());
  if (!before) return tl::unexpected(before.error());
  auto checked = mounted::check(plan, head, recorded, line.hooks(), before->has_value() ? &**before : nullptr);
  if (!checked) return tl::unexpected(under_model(checked.error(), fusefs::describe(model)));
  comparison.add(std::move(checked->result), std::move(checked->rest));
  return {};
}

// The same on a filesystem of the kernel's, in a directory of its own below the results.
tl::expected<void, Failure> check_on_kernel(Comparison& comparison, const MountedPlans& plans,
                                            const kernel::DiskPlan& disk, const std::vector<std::string>& words,
                                            const mounted::Recorded& recorded) {
  ProgressLine line(comparison.reports().quiet);
  kernel::CheckPlan plan{plans.check, disk};
  mounted::RecordPlan program = plans.record;
  plan.common.search.wants_all = plan.common.search.keeps_finished = true;
  plan.common.directory = program.directory =
      fmt::format("{}/kernel-{}", plans.check.directory, comparison.row_count() + 1);
  boost::system::error_code error;
  boost::filesystem::create_directory(program.directory, error);
  if (!error)
    boost::filesystem::copy_file(mounted::trace_of(plans.check.directory), mounted::trace_of(program.directory),
                                 boost::filesystem::copy_options::overwrite_existing, error);
  if (error) return wrong_use(fmt::format("Cannot make {}: {}.", program.directory, error.message()));
  std::optional<kernel::Left> before;
  if (const std::string rest = comparison.next_rest(); !rest.empty()) {
    auto stopped = kernel::read_rest(rest);
    if (!stopped) return cannot_read(stopped.error());
    before = std::move(stopped->left);
  }
  auto checked =
      kernel::check(plan, program, kernel::head_of(plan, words), recorded, line.hooks(), before ? &*before : nullptr);
  if (!checked) return tl::unexpected(under_model(checked.error(), disk.filesystem.text()));
  comparison.add(std::move(checked->result), std::move(checked->rest));
  return {};
}

tl::expected<std::vector<kernel::DiskPlan>, Failure> disks_of(const CompareOptions& options) {
  std::vector<kernel::DiskPlan> disks;
  DeviceOptions device;
  device.runs = options.runs;
  device.subsets = options.subsets;
  for (const std::string& filesystem : options.filesystems) {
    const auto disk = disk_plan_of(options.mounted, device, filesystem, false);
    if (!disk) return tl::unexpected(disk.error());
    disks.push_back(*disk);
  }
  return disks;
}

// Recorded once: a trace knows no model. `earlier` is the run of an earlier comparison that is gone on with, in its
// directory.
tl::expected<int, Failure> compare_mounted(Comparison& comparison, const CompareOptions& options,
                                           const std::vector<std::string>& words,
                                           const std::optional<mounted::Recorded>& earlier) {
  const auto disks = disks_of(options);
  if (!disks) return tl::unexpected(disks.error());
  const auto models = make_plans(options.mounted.common);
  if (!models) return tl::unexpected(models.error());
  MountedOptions first = options.mounted;
  first.common.profiles = {std::string(fusefs::to_text(models->front().model.profile))};
  first.common.data_modes = {std::string(fusefs::to_text(models->front().model.data))};
  ReportOptions& reports = comparison.reports();
  auto plans = make_mounted_plans(first, words, reports.directory);
  if (!plans) return tl::unexpected(plans.error());
  reports.directory = plans->check.directory;
  plans->record.is_stdout_taken = reports.is_stdout_taken();
  const result::Head head = mounted::head_of("compare", plans->check, words);
  const std::size_t row_count = models->size() + disks->size();
  print_comparison_head(reports, head, row_count);
  std::chrono::duration<double>& limit = plans->check.search.time_limit;
  TimeShares shares(limit, row_count);
  auto recorded = earlier ? tl::expected<mounted::Recorded, Failure>(*earlier) : record_program(*plans);
  if (!recorded) return tl::unexpected(recorded.error());
  if (!reports.quiet && !earlier) print(reports.out(), mounted::recorded_text(*recorded, plans->check));
  const SearchSignals signals;
  for (const Plan& model : *models) {
    if (is_interrupted()) break;
    limit = shares.next();
    if (auto ok = check_model(comparison, plans->check, model.model, head, *recorded); !ok)
      return tl::unexpected(ok.error());
  }
  for (const kernel::DiskPlan& disk : *disks) {
    if (is_interrupted()) break;
    limit = shares.next();
    if (auto ok = check_on_kernel(comparison, *plans, disk, words, *recorded); !ok) return tl::unexpected(ok.error());
  }
  return comparison.report(row_count);
}

// What the comparison is about: files in a mounted filesystem, persistent memory, or files inside a program.
bool is_mounted(const CompareOptions& options, const std::vector<std::string>& words) {
  return !options.has_memory && (!options.filesystems.empty() || asks_for_mount(options.mounted, words));
}

tl::expected<int, Failure> compare(Comparison& comparison, const CompareOptions& options,
                                   const std::vector<std::string>& words,
                                   const std::optional<mounted::Recorded>& earlier) {
  if (options.has_memory) return compare_memory(comparison, options, words);
  if (is_mounted(options, words)) return compare_mounted(comparison, options, words, earlier);
  return compare_programs(comparison, options, words);
}

void add_compare_options(CLI::App& command, CompareOptions& options) {
  add_mounted_options(command, options.mounted);
  command
      .add_option("--fs", options.filesystems,
                  "also on this filesystem of the kernel's, as for crashcut check: kernel:ext4, kernel:xfs, "
                  "kernel:btrfs; may be given more than once")
      ->type_name("kernel:TYPE[:OPTIONS]")
      ->allow_extra_args(false);
  command.add_option("--runs", options.runs, "of the program on each --fs, as for crashcut check (default: 16)")
      ->type_name("N")
      ->check(whole_between(1, 100000));
  command.add_option("--subsets", options.subsets, "images between two flushes on each --fs, at most (default: 64)")
      ->type_name("N")
      ->check(whole_between(2, 1u << 20));
  add_main_limit(command, options.mounted.common);
  add_recovery_limit(command, options.mounted.common);
  command.add_flag("--pmem", options.has_memory,
                   "a program with persistent memory, as for crashcut pmem, under its models");
}

// Options that belong to another kind of comparison.
tl::expected<void, Failure> check_kinds(const CLI::App& command, const CompareOptions& options, bool is_mounted) {
  for (const char* given : {"--runs", "--subsets"}) {
    if (command.count(given) > 0 && options.filesystems.empty())
      return wrong_use(fmt::format("{} is for --fs kernel:....", given));
  }
  for (const char* limit : {"--main-limit", "--recovery-limit"}) {
    if (is_mounted && command.count(limit) > 0)
      return wrong_use(
          fmt::format("{} is for a program with crashcut_recover(); on the mounted filesystem there are "
                      "--program-limit and --check-limit.",
                      limit));
  }
  return {};
}

tl::expected<int, Failure> begin(const CLI::App& command, const CompareOptions& options) {
  const ReportOptions& reports = options.mounted.common.reports;
  if (auto ok = check_reports(reports); !ok) return tl::unexpected(ok.error());
  const std::vector<std::string> words = program_words(command);
  if (auto ok = check_kinds(command, options, is_mounted(options, words)); !ok) return tl::unexpected(ok.error());
  Comparison comparison(reports, words_of(command), {});
  return compare(comparison, options, words, std::nullopt);
}

// How the program ran that the rows of a stopped comparison are about.
tl::expected<std::optional<mounted::Recorded>, Failure> recorded_of(const StoppedComparison& stopped) {
  for (const std::string& rest : stopped.rests) {
    if (const auto row = mounted::read_rest(rest)) return row->recorded;  // others are of the kernel
  }
  return wrong_use("The comparison was stopped before its first model, so there is nothing to resume. Compare anew.");
}

// Goes on with a comparison that was stopped, in its directory. Bounds and reports are those of this run.
tl::expected<int, Failure> resume(const CompareOptions& given, const std::string& directory) {
  namespace fs = boost::filesystem;
  if (auto ok = check_reports(given.mounted.common.reports); !ok) return tl::unexpected(ok.error());
  const auto text = read_rest_file(directory);
  if (!text) return tl::unexpected(text.error());
  const auto stopped = decode_comparison(*text);
  if (!stopped) return wrong_use(fmt::format("{}: {}", directory, stopped.error()));
  if (fs::current_path() != stopped->directory)
    return wrong_use(fmt::format("This comparison was begun in {}: go on with it there.", stopped->directory));
  CompareOptions options;
  CLI::App again("", "compare");
  add_compare_options(again, options);
  std::vector<std::string> options_given = hide_separators(stopped->words);
  std::reverse(options_given.begin(), options_given.end());  // as CLI11 wants them
  again.parse(std::move(options_given));
  const std::vector<std::string> words = program_words(again);
  Options& common = options.mounted.common;
  const Options& bounds = given.mounted.common;
  common.jobs = bounds.jobs;
  common.max_recoveries = bounds.max_recoveries;
  common.time_s = bounds.time_s;
  common.reports = bounds.reports;
  common.reports.directory = fs::canonical(directory).string();
  options.mounted.image_directory.clear();
  std::optional<mounted::Recorded> recorded;
  if (is_mounted(options, words)) {
    auto earlier = recorded_of(*stopped);
    if (!earlier) return tl::unexpected(earlier.error());
    recorded = std::move(*earlier);
  }
  Comparison comparison(common.reports, stopped->words, stopped->rests);
  return compare(comparison, options, words, recorded);
}

}  // namespace

void add_compare_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand("compare", "the same program under every journaling mode, in one table");
  add_compare_options(*command, *options);
  auto directory = std::make_shared<std::string>();
  add_resume_option(*command, *directory);
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
  command->callback([command, options, directory, &exit_code] {
    const auto run = [&]() -> tl::expected<int, Failure> {
      if (directory->empty()) return begin(*command, *options);
      if (auto ok = check_beside_resume(*command); !ok) return tl::unexpected(ok.error());
      return resume(*options, *directory);
    };
    const auto code = run();
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
