#include "cli/kernel_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/interrupts.h"
#include "cli/progress_line.h"
#include "persist/deadline.h"

namespace crashcut::cli {
namespace {

using result::Failure;
using result::wrong_use;

constexpr std::uint32_t kBlockBytes = 4096;

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
  ProgressLine line(reports.quiet);
  const SearchSignals signals;
  const auto checked = kernel::check(plan, plans->record, head, *recorded, line.hooks());
  line.clear();
  if (!checked) return tl::unexpected(checked.error());
  return report(reports, *checked);
}

}  // namespace crashcut::cli
