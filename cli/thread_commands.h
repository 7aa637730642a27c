// Commands beside crashcut threads: see commands.h.
#pragma once

#include <CLI/CLI.hpp>

namespace crashcut::cli {

void add_flags_command(CLI::App& app, int& exit_code);
void add_gdb_command(CLI::App& app, int& exit_code);

}  // namespace crashcut::cli
