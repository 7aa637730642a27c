// What a check of a program on a raw device is to do.
#pragma once

#include <cstdint>

#include "blocklayer/drive.h"
#include "blocklayer/mount/device_mount.h"
#include "recovery/mounted/plan.h"

namespace crashcut::device {

using mounted::CommandLine;
using result::Failure;

// How the program is run and recorded. The device is a file of a mount at disk/, its trace is written to trace.
struct RecordPlan {
  mounted::RecordPlan program;
  std::uint64_t bytes = 0;
  std::uint32_t sector_bytes = 512;
  blocklayer::Answers answers = blocklayer::Answers::kOldest;
};

// What is asked of the crash states, and how far to go.
struct CheckPlan {
  mounted::CheckPlan common;  // its checker is asked; it has no files and no model
  blocklayer::DriveOptions drive;
};

}  // namespace crashcut::device
