// Program commands: crashcut run and crashcut pmem: a program with main() is run once, and its recovery on every state
// that a crash can leave.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "recovery/plan.h"
#include "recovery/result/failure.h"

namespace crashcut::cli {

struct ProgramCommand {
  std::string name;
  std::string description;
  std::string footer;
  std::function<void(CLI::App&)> add_options{};                                    // those that only it has
  std::function<tl::expected<void, result::Failure>(recovery::Plan&)> complete{};  // puts them into the plan
  // Where the threads of the program may be scheduled: what was said of their schedules. Empty: as many as it takes.
  const std::string* schedules = nullptr;
};

void add_program_command(CLI::App& app, int& exit_code, const ProgramCommand& what);

}  // namespace crashcut::cli
