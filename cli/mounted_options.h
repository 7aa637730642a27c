// Options of the commands that run programs on the mounted filesystem: check, and compare with them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/options.h"
#include "recovery/mounted/check.h"

namespace crashcut::cli {

struct MountedOptions {
  Options common;
  std::vector<std::string> files, backups, expects;
  bool tree = false;
  bool not_durable = false;
  std::string setup, checker;
  bool lines_are_marks = false;
  bool remount = false;
  std::string image_directory;
  std::uint32_t program_limit_s = 600;
  std::uint32_t check_limit_s = 30;
};

struct MountedPlans {
  mounted::RecordPlan record;
  mounted::CheckPlan check;
};

// Whether an option was given that only makes sense there.
bool asks_for_mount(const MountedOptions& options, const std::vector<std::string>& words);
void add_mounted_options(CLI::App& command, MountedOptions& options);
// Makes the directory for the results, unless there is one already.
tl::expected<MountedPlans, result::Failure> make_mounted_plans(const MountedOptions& options,
                                                               const std::vector<std::string>& words,
                                                               const std::string& results = "");
// Runs the program; a terminal is lent to it where we have one.
tl::expected<mounted::Recorded, result::Failure> record_program(const MountedPlans& plans);

}  // namespace crashcut::cli
