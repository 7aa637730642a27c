// crashcut flags: what to compile a program with, so that its variables are seen.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/instrumentation.h"
#include "cli/thread_commands.h"

namespace crashcut::cli {

void add_flags_command(CLI::App& app, int& exit_code) {
  auto compiler = std::make_shared<std::string>("cc");
  CLI::App* command =
      app.add_subcommand("flags", "print the compiler's flags for a program whose variables crashcut threads sees");
  command->add_option("compiler", *compiler, "the compiler's command: gcc, g++, clang or clang++ (default: cc)")
      ->type_name("COMPILER");
  command->footer(
      "For compiling and for linking. The program also runs without crashcut.\n\n"
      "Example: g++ $(crashcut flags g++) -o counter counter.cc && crashcut threads ./counter");
  command->callback([compiler, &exit_code] {
    const auto flags = instrumentation_flags(*compiler);
    if (flags) fmt::print("{}\n", fmt::join(*flags, " "));
    exit_code = flags ? 0 : report_failure(flags.error());
  });
}

}  // namespace crashcut::cli
