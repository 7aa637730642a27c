// What a check of a program on a raw device is to do.
#pragma once

#include <cstdint>

#include "blocklayer/drive.h"
#include "blocklayer/mount/device_mount.h"
#include "recovery/mounted/plan.h"

namespace crashcut::device {

using mounted::CommandLine;
using result::Failure;

// How the program is run and recorded. The device is a file of a mount at disk/, its trace is written to trace. With a
// loop device it is a link to that, and the file below it lies in a mount at device/.
struct RecordPlan {
  mounted::RecordPlan program;
  std::uint64_t bytes = 0;
  std::uint32_t sector_bytes = 512;
  blocklayer::Answers answers = blocklayer::Answers::kOldest;
  bool has_loop = false;    // the program gets a block device of the kernel's; only root can
  std::string from_file{};  // what the device holds at first; empty: zeroes
};

// What is asked of the crash states, and how far to go.
struct CheckPlan {
  mounted::CheckPlan common;  // its checker is asked; it has no files and no model
  blocklayer::DriveOptions drive;
};

}  // namespace crashcut::device
