#include "cli/kernel_check.h"

#include <fmt/format.h>

#include <boost/filesystem.hpp>
#include <chrono>

#include "cli/bounds.h"
#include "cli/interrupts.h"
#include "cli/progress_line.h"
#include "persist/deadline.h"

namespace crashcut::cli {
namespace {

using result::Failure;
using result::wrong_use;

namespace fs = boost::filesystem;

constexpr std::uint32_t kBlockBytes = 4096;

tl::expected<int, Failure> search(ReportOptions reports, const kernel::CheckPlan& plan,
                                  const mounted::RecordPlan& program, const result::Head& head,
                                  const mounted::Recorded& recorded, const kernel::Left* before) {
  ProgressLine line(reports.quiet);
  const SearchSignals signals;
  auto checked = kernel::check(plan, program, head, recorded, line.hooks(), before);
  line.clear();
  if (!checked) return tl::unexpected(checked.error());
  keep_rest(reports, "check", checked->rest, checked->result);
  return report(reports, checked->result);
}

}  // namespace

tl::expected<kernel::DiskPlan, Failure> disk_plan_of(const MountedOptions& options, const DeviceOptions& device,
                                                     const std::string& filesystem, bool is_sector_given) {
  const auto parsed = kernel::parse_filesystem(filesystem);
  if (!parsed) return wrong_use(parsed.error());
  if (const std::string missing = kernel::what_is_missing(*parsed); !missing.empty()) return wrong_use(missing);
  const auto drive = drive_of(device, is_sector_given ? options.common.sector_bytes : kBlockBytes);
  if (!drive) return tl::unexpected(drive.error());
  const std::uint64_t bytes = device.size.empty() ? kernel::default_bytes(*parsed) : parse_size(device.size);
  if (bytes < kernel::least_bytes(*parsed) || bytes % kBlockBytes != 0)
    return wrong_use(fmt::format("--device-size {}: {} needs at least {}M, and a multiple of {} bytes.", device.size,
                                 parsed->text(), kernel::least_bytes(*parsed) >> 20, kBlockBytes));
  return kernel::DiskPlan{*parsed, bytes, *drive, device.runs, device.subsets};
}

tl::expected<int, Failure> check_kernel(const MountedOptions& options, const DeviceOptions& device,
                                        const std::vector<std::string>& words, bool is_sector_given) {
  ReportOptions reports = options.common.reports;
  if (auto ok = check_reports(reports); !ok) return tl::unexpected(ok.error());
  const auto disk = disk_plan_of(options, device, device.filesystem, is_sector_given);
  if (!disk) return tl::unexpected(disk.error());
  auto plans = make_mounted_plans(options, words);
  if (!plans) return tl::unexpected(plans.error());
  kernel::CheckPlan plan{plans->check, *disk};
  reports.directory = plan.common.directory;
  plans->record.is_stdout_taken = reports.is_stdout_taken();
  const result::Head head = kernel::head_of(plan, words);
  print_head(reports, head);
  const persist::Deadline deadline(plan.common.search.time_limit.count());
  const auto recorded = record_program(*plans);
  if (!recorded) return tl::unexpected(recorded.error());
  if (recorded->timed_out)
    return wrong_use(
        "The program did not end within --program-limit and --time, so it cannot be run again on the kernel.");
  if (!reports.quiet) print(reports.out(), mounted::recorded_text(*recorded, plan.common));
  plan.common.search.time_limit = std::chrono::duration<double>(deadline.seconds_left());
  return search(reports, plan, plans->record, head, *recorded, nullptr);
}

bool is_kernel_rest(const std::string& text) { return kernel::is_rest(text); }

tl::expected<int, Failure> resume_kernel(const MountedOptions& options, const std::string& directory,
                                         const std::string& text) {
  ReportOptions reports = options.common.reports;
  auto stopped = kernel::read_rest(text);
  if (!stopped) return wrong_use(fmt::format("{}: {}", directory, stopped.error()));
  kernel::CheckPlan& plan = stopped->plan;
  if (const std::string missing = kernel::what_is_missing(plan.disk.filesystem); !missing.empty())
    return wrong_use(missing);
  const auto bounds = make_plan(options.common);
  if (!bounds) return tl::unexpected(bounds.error());
  plan.common.search.jobs = bounds->jobs;
  plan.common.search.max_recoveries = bounds->max_recoveries;
  plan.common.search.time_limit = bounds->time_limit;
  plan.common.search.wants_all = plan.common.search.wants_all || reports.outcomes;
  plan.common.memory_limit = memory_limit();
  plan.common.directory = stopped->program.directory = reports.directory = fs::canonical(directory).string();
  stopped->program.is_stdout_taken = reports.is_stdout_taken();
  const result::Head head = kernel::head_of(plan, stopped->words);
  print_head(reports, head);
  return search(reports, plan, stopped->program, head, stopped->recorded, &stopped->left);
}

}  // namespace crashcut::cli
