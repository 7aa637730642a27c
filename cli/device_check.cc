#include "cli/device_check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <charconv>
#include <chrono>
#include <optional>

#include "blocklayer/log_writes.h"
#include "blocklayer/mount/device_mount.h"
#include "cli/interrupts.h"
#include "cli/progress_line.h"
#include "persist/deadline.h"
#include "recovery/device/check.h"
#include "recovery/result/words.h"

namespace crashcut::cli {
namespace {

using result::Failure;
using result::wrong_use;
namespace fs = boost::filesystem;

constexpr const char* kOnlyForDevices[] = {"--atomic", "--atomic-boundary", "--import-log", "--export-log",
                                           "--faults", "--fault-kinds",     "--answers",    "--loop"};
constexpr const char* kForDrives[] = {"--device-size", "--cache", "--cache-lies", "--tear"};
constexpr const char* kOnlyForKernels[] = {"--runs", "--subsets"};
constexpr const char* kNotForKernels[] = {"--device", "--remount", "--image", "--profile",
                                          "--data",   "-o",        "--block", "--depth"};
constexpr const char* kDefaultSize = "64M";
constexpr const char* kNotForDevices[] = {"--file",  "--backup",  "--tree", "--expect", "--no-durable", "--remount",
                                          "--image", "--profile", "--data", "-o",       "--block"};

tl::expected<int, Failure> search(ReportOptions reports, const device::CheckPlan& plan, const result::Head& head,
                                  const mounted::Recorded& recorded, const search::Rest* before) {
  ProgressLine line(reports.quiet);
  const SearchSignals signals;
  auto checked = device::check(plan, head, recorded, line.hooks(), before);
  line.clear();
  if (!checked) return tl::unexpected(checked.error());
  keep_rest(reports, "check", checked->rest, checked->result);
  return report(reports, checked->result);
}

tl::expected<mounted::Recorded, Failure> record(const device::RecordPlan& plan) {
  const bool with_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !plan.program.lines_are_marks;
  auto recorded = device::record(plan, with_terminal);
  if (!recorded || recorded->timed_out || (recorded->exited && recorded->code == 0)) return recorded;
  const std::string how = recorded->exited ? fmt::format("ended with status {}", recorded->code)
                                           : fmt::format("was killed by {}", result::signal_text(recorded->signal));
  return wrong_use(
      fmt::format("The program itself failed, before any crash was tried: it {}. The device is the file {} in the "
                  "directory in which "
                  "it starts, $CRASHCUT_DEVICE.",
                  how, blocklayer::kDeviceName));
}

}  // namespace

std::uint64_t parse_size(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number == 0) return 0;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 44;
  return shift < 0 || number > kMost >> shift ? 0 : number << shift;
}

tl::expected<blocklayer::DriveOptions, Failure> drive_of(const DeviceOptions& device, std::uint32_t sector_bytes) {
  const auto cache = blocklayer::parse_cache(device.cache);
  if (!cache || *cache == blocklayer::Cache::kLies)
    return wrong_use(
        fmt::format("--cache {}: it is volatile or none; --cache-lies is an option of its own.", device.cache));
  if (device.cache_lies && *cache == blocklayer::Cache::kNone)
    return wrong_use("--cache-lies needs a cache: it does not go with --cache none.");
  const auto tear = blocklayer::parse_tear(device.tear);
  if (!tear) return wrong_use("--tear: " + tear.error());
  const auto fault_kinds = blocklayer::parse_fault_kinds(device.fault_kinds);
  if (!fault_kinds) return wrong_use("--fault-kinds: " + fault_kinds.error());
  const blocklayer::DriveOptions drive{.sector_bytes = sector_bytes,
                                       .cache = device.cache_lies ? blocklayer::Cache::kLies : *cache,
                                       .tear = *tear,
                                       .atomic_sectors = device.atomic_sectors,
                                       .boundary_sectors = device.boundary_sectors,
                                       .faults = device.faults,
                                       .fault_kinds = *fault_kinds};
  if (const auto ok = blocklayer::check_options(drive); !ok) return wrong_use(ok.error());
  return drive;
}

void add_device_options(CLI::App& command, DeviceOptions& options) {
  const std::string group = "On a raw device";
  command
      .add_flag("--device", options.is_device,
                "the disk is a raw device: the file `device` in the directory in which the program starts, also in "
                "$CRASHCUT_DEVICE; needs --check")
      ->group(group);
  command
      .add_flag("--loop", options.has_loop,
                "with --device: while the program runs, `device` is a real block device, /dev/loopN; needs root")
      ->group(group);
  command
      .add_option("--device-size", options.size,
                  "how large the disk is, with K, M or G (default: 64M; for --fs what its filesystem needs)")
      ->type_name("BYTES")
      ->group(group);
  command
      .add_option("--cache", options.cache, "the drive's cache: volatile (default), or none (what is done is durable)")
      ->type_name("volatile|none")
      ->group(group);
  command.add_flag("--cache-lies", options.cache_lies, "flushes do nothing: the drive says that they are done")
      ->group(group);
  command
      .add_option("--tear", options.tear,
                  "what is left of a write of several sectors: any of them (default), the first ones, all or nothing")
      ->type_name("any|prefix|none")
      ->group(group);
  command
      .add_option("--atomic", options.atomic_sectors,
                  "a write of at most so many sectors is left whole or not at all (NVMe: AWUPF; default: 1)")
      ->type_name("SECTORS")
      ->group(group);
  command
      .add_option("--atomic-boundary", options.boundary_sectors,
                  "unless it crosses a multiple of so many sectors (NVMe: NABSPF; default: there is none)")
      ->type_name("SECTORS")
      ->group(group);
  command
      .add_option("--faults", options.faults,
                  "so many faults at most in one recovery: a bad sector, a write that went elsewhere (default: 0)")
      ->type_name("N")
      ->group(group);
  command
      .add_option("--fault-kinds", options.fault_kinds,
                  "which faults: bad sectors that were written (default), any bad sectors, writes that went to where "
                  "another request begins, or to any sector")
      ->type_name("written|any|misdirected|misdirected-any,...")
      ->group(group);
  command
      .add_option("--answers", options.answers,
                  "which of the requests in flight the drive answers first, while the program runs (default: oldest)")
      ->type_name("oldest|newest")
      ->check(CLI::IsMember({"oldest", "newest"}).description(""))
      ->group(group);
  command
      .add_option("--import-log", options.import_log,
                  "crash the writes of this log of dm-log-writes, instead of running a program")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--export-log", options.export_log,
                  "write what the program did as a log of dm-log-writes, for xfstests' replay-log and others")
      ->type_name("FILE")
      ->group(group);
  const std::string kernel = "On the kernel's own filesystem";
  command
      .add_option("--fs", options.filesystem,
                  "kernel:ext4, kernel:xfs or kernel:btrfs, and mount options after another colon: the program runs on "
                  "that, and the kernel mounts every crash image; needs root")
      ->type_name("kernel:TYPE[:OPTIONS]")
      ->group(kernel);
  command
      .add_option("--runs", options.runs,
                  "run the program so often, with commits and writeback forced between its calls (default: 16)")
      ->type_name("N")
      ->check(whole_between(1, 100000))
      ->group(kernel);
  command
      .add_option("--subsets", options.subsets,
                  "make at most so many images of the writes between two flushes (default: 64)")
      ->type_name("N")
      ->check(whole_between(2, 1u << 20))
      ->group(kernel);
}

tl::expected<void, Failure> check_beside_device(const CLI::App& command, const DeviceOptions& options) {
  const auto first_given = [&](const auto& names) -> const char* {
    for (const char* name : names) {
      if (command.count(name) > 0) return name;
    }
    return nullptr;
  };
  const bool is_kernel = !options.filesystem.empty();
  if (is_kernel) {
    if (const char* given = first_given(kNotForKernels))
      return wrong_use(fmt::format("{} does not go with --fs {}.", given, options.filesystem));
  } else if (const char* given = first_given(kOnlyForKernels)) {
    return wrong_use(fmt::format("{} is for --fs kernel:....", given));
  }
  if (!options.is_device) {
    const char* given = first_given(kOnlyForDevices);
    if (given == nullptr && !is_kernel) given = first_given(kForDrives);
    if (given == nullptr) return {};
    return wrong_use(fmt::format("{} is for --device.", given));
  }
  if (const char* given = first_given(kNotForDevices))
    return wrong_use(fmt::format("{} is for a filesystem: a raw device (--device) has none.", given));
  if (!options.import_log.empty() && !command.remaining().empty())
    return wrong_use("--import-log takes the place of a program: no program can be given with it.");
  for (const char* given :
       {"--setup", "--sector", "--device-size", "--stdout-marks", "--program-limit", "--answers", "--loop", "--from"}) {
    if (!options.import_log.empty() && command.count(given) > 0)
      return wrong_use(fmt::format("{} is for a program that is run; --import-log reads what was done.", given));
  }
  if (options.has_loop && options.answers != "oldest")
    return wrong_use("--answers newest does not go with --loop: there the kernel answers.");
  if (options.has_loop && geteuid() != 0) return wrong_use("--loop attaches a loop device, which only root can.");
  if (command.count("--check") == 0)
    return wrong_use("--device needs --check: only your own checker can say what a raw device must hold.");
  return {};
}

namespace {

// The log as a recording in the directory of the results; the drive has its sectors.
tl::expected<mounted::Recorded, Failure> import_log(const std::string& path, device::CheckPlan& plan) {
  const auto imported = blocklayer::import_log_writes(path, mounted::trace_of(plan.common.directory));
  if (!imported) return wrong_use("--import-log: " + imported.error());
  plan.drive.sector_bytes = imported->header.sector_bytes;
  boost::system::error_code error;
  fs::create_directory(mounted::disk_of(plan.common.directory), error);
  mounted::Recorded recorded;
  recorded.exited = true;
  return recorded;
}

tl::expected<void, Failure> export_log(const std::string& path, const device::CheckPlan& plan) {
  const auto trace = blocklayer::DeviceTrace::open(mounted::trace_of(plan.common.directory));
  if (!trace) return wrong_use(trace.error());
  if (const auto ok = blocklayer::export_log_writes(**trace, path); !ok)
    return wrong_use("--export-log: " + ok.error());
  return {};
}

// How large the device is: as asked for, else as large as the file that it starts as, else the default.
tl::expected<std::uint64_t, Failure> device_bytes(const DeviceOptions& device, std::uint32_t sector_bytes,
                                                  const std::string& from_file) {
  std::uint64_t least = 0;
  if (!from_file.empty()) {
    boost::system::error_code error;
    if (!fs::is_regular_file(from_file, error) || fs::file_size(from_file, error) == 0)
      return wrong_use(fmt::format("--from {}: a device starts as what a file holds, and this is none.", from_file));
    least = (fs::file_size(from_file, error) + sector_bytes - 1) / sector_bytes * sector_bytes;
  }
  const bool is_asked = !device.size.empty();
  const std::uint64_t bytes = !is_asked && least > 0 ? least : parse_size(is_asked ? device.size : kDefaultSize);
  if (bytes == 0 || bytes % sector_bytes != 0)
    return wrong_use(
        fmt::format("--device-size {}: it is a number of bytes, 16384G at most, and a multiple of the "
                    "sector, {}.",
                    device.size, sector_bytes));
  if (bytes < least)
    return wrong_use(fmt::format("--device-size {}: {} is larger ({} bytes).", device.size, from_file, least));
  return bytes;
}

}  // namespace

tl::expected<int, Failure> check_device(const MountedOptions& given, const DeviceOptions& device,
                                        const std::vector<std::string>& words) {
  MountedOptions options = given;
  const std::string from_file = std::exchange(options.common.from_directory, {});
  ReportOptions reports = options.common.reports;
  if (auto ok = check_reports(reports); !ok) return tl::unexpected(ok.error());
  const auto drive = drive_of(device, options.common.sector_bytes);
  if (!drive) return tl::unexpected(drive.error());
  const auto bytes = device_bytes(device, drive->sector_bytes, from_file);
  if (!bytes) return tl::unexpected(bytes.error());
  const bool is_imported = !device.import_log.empty();
  auto plans = make_mounted_plans(options, is_imported ? std::vector<std::string>{"true"} : words);
  if (!plans) return tl::unexpected(plans.error());
  device::CheckPlan plan{plans->check, *drive};
  const auto answers = device.answers == "newest" ? blocklayer::Answers::kNewest : blocklayer::Answers::kOldest;
  device::RecordPlan record_plan{plans->record, *bytes, drive->sector_bytes, answers, device.has_loop, ""};
  if (!from_file.empty()) record_plan.from_file = fs::absolute(from_file).string();
  reports.directory = plan.common.directory;
  record_plan.program.is_stdout_taken = reports.is_stdout_taken();
  const persist::Deadline deadline(plan.common.search.time_limit.count());
  std::optional<EndsInTime> ends(std::in_place, plans->record.end);
  tl::expected<mounted::Recorded, Failure> recorded;
  if (is_imported) recorded = import_log(device.import_log, plan);
  if (!recorded) return tl::unexpected(recorded.error());
  const result::Head head = device::head_of(plan, is_imported ? std::vector{device.import_log} : words);
  print_head(reports, head);
  if (!is_imported) recorded = record(record_plan);
  ends.reset();
  if (!recorded) return tl::unexpected(recorded.error());
  if (!reports.quiet && !is_imported) print(reports.out(), mounted::recorded_text(*recorded, plan.common));
  if (!device.export_log.empty()) {
    if (auto ok = export_log(device.export_log, plan); !ok) return tl::unexpected(ok.error());
  }
  plan.common.search.time_limit = std::chrono::duration<double>(deadline.seconds_left());
  plan.common.search.known = known_tokens();
  plan.common.search.wants_mends = true;
  return search(reports, plan, head, *recorded, nullptr);
}

bool is_device_rest(const std::string& text) { return device::is_rest(text); }

tl::expected<int, Failure> resume_device(const MountedOptions& options, const std::string& directory,
                                         const std::string& text) {
  ReportOptions reports = options.common.reports;
  auto stopped = device::read_rest(text);
  if (!stopped) return wrong_use(fmt::format("{}: {}", directory, stopped.error()));
  search::Plan& plan = stopped->plan.common.search;
  const auto bounds = make_plan(options.common);
  if (!bounds) return tl::unexpected(bounds.error());
  plan.jobs = bounds->jobs;
  plan.max_recoveries = bounds->max_recoveries;
  plan.time_limit = bounds->time_limit;
  plan.wants_all = plan.wants_all || reports.outcomes;
  plan.wants_mends = true;
  plan.wants_states = true;
  plan.wants_all_states = !reports.html_file.empty();
  stopped->plan.common.directory = reports.directory = fs::canonical(directory).string();
  const result::Head head = device::head_of(stopped->plan, stopped->words);
  print_head(reports, head);
  return search(reports, stopped->plan, head, stopped->recorded, &stopped->rest);
}

}  // namespace crashcut::cli
