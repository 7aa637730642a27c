// crashcut check --device: a program on a raw device.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "blocklayer/drive.h"
#include "cli/mounted_options.h"

namespace crashcut::cli {

// As typed.
struct DeviceOptions {
  bool is_device = false;
  bool has_loop = false;
  std::string size;  // empty: the default
  std::string cache = "volatile", tear = "any";
  bool cache_lies = false;
  std::uint32_t atomic_sectors = 1, boundary_sectors = 0;
  std::uint32_t faults = 0;
  std::string fault_kinds = "written";
  std::string answers = "oldest";
  std::string import_log, export_log;
  // On the kernel's filesystem.
  std::string filesystem;
  std::uint32_t runs = 16, subsets = 64;
};

void add_device_options(CLI::App& command, DeviceOptions& options);
// The drive that the options describe, with sectors of this size.
tl::expected<blocklayer::DriveOptions, result::Failure> drive_of(const DeviceOptions& device,
                                                                 std::uint32_t sector_bytes);
// "64M" in bytes; 0 where it makes no sense.
std::uint64_t parse_size(const std::string& text);
// Whether options were given that need --device or --fs, or that do not go with it.
tl::expected<void, result::Failure> check_beside_device(const CLI::App& command, const DeviceOptions& options);

// `words` are empty where a log is imported.
tl::expected<int, result::Failure> check_device(const MountedOptions& options, const DeviceOptions& device,
                                                const std::vector<std::string>& words);
// Goes on where a search stopped. `text` is what it left.
bool is_device_rest(const std::string& text);
tl::expected<int, result::Failure> resume_device(const MountedOptions& options, const std::string& directory,
                                                 const std::string& text);

}  // namespace crashcut::cli
