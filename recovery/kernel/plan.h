// What a check of a program on the kernel's own filesystem is to do.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "blocklayer/drive.h"
#include "recovery/kernel/filesystem.h"
#include "recovery/mounted/plan.h"

namespace crashcut::kernel {

using result::Failure;

// Where the results are: the program's run on crashcut's own disk as for crashcut check (trace), the disk before the
// program (base), a trace for each run on the kernel (run-1, run-2, ...), and the images that were fine (judged).
struct DiskPlan {
  KernelFilesystem filesystem;
  std::uint64_t bytes = 0;         // of the disk
  blocklayer::DriveOptions drive;  // its sectors are what tears
  std::uint32_t runs = 16;         // of the program
  std::uint32_t subsets = 64;      // images of the writes between two flushes, at most
  bool merges_replayed = true;     // of images that are equal once the journal is replayed, one is mounted
  // The blocks of the journal, where they are known already: they do not change from run to run.
  std::optional<std::vector<std::uint64_t>> journal{};
};

struct CheckPlan {
  mounted::CheckPlan common;  // its questions and its checker; its model is not used
  DiskPlan disk;
};

// Where the recording device is mounted, and files for checkers lie.
std::string device_directory(const std::string& directory);
std::string base_of(const std::string& directory);
std::string run_of(const std::string& directory, std::uint32_t run);  // counted from 1

}  // namespace crashcut::kernel
