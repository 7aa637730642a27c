// crashcut check --fs kernel:TYPE: a program on the kernel's own filesystem.
#pragma once

#include <string>
#include <vector>

#include "cli/device_check.h"
#include "recovery/kernel/check.h"

namespace crashcut::cli {

// `is_sector_given`: --sector was; else a disk of the kernel tears in its blocks.
tl::expected<kernel::DiskPlan, result::Failure> disk_plan_of(const MountedOptions& options, const DeviceOptions& device,
                                                             const std::string& filesystem, bool is_sector_given);
tl::expected<int, result::Failure> check_kernel(const MountedOptions& options, const DeviceOptions& device,
                                                const std::vector<std::string>& words, bool is_sector_given);

// Goes on where a check stopped. `text` is what it left.
bool is_kernel_rest(const std::string& text);
tl::expected<int, result::Failure> resume_kernel(const MountedOptions& options, const std::string& directory,
                                                 const std::string& text);

}  // namespace crashcut::cli
