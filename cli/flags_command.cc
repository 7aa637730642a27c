// crashcut flags: what to compile a program with, so that its variables are seen.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/compiler.h"
#include "cli/instrumentation.h"
#include "cli/options.h"
#include "cli/thread_commands.h"

namespace crashcut::cli {

void add_flags_command(CLI::App& app, int& exit_code) {
  auto compiler = std::make_shared<std::string>("cc");
  CLI::App* command =
      app.add_subcommand("flags", "print the compiler's flags for a program whose variables crashcut threads sees");
  command->formatter(usage_formatter("crashcut flags [--pmem] [COMPILER]"));
  struct Pmem {
    bool is_asked = false;
    Instrumentation instrumentation;
  };
  auto pmem = std::make_shared<Pmem>();
  command->add_flag(
      "--pmem", pmem->is_asked,
      "for crashcut pmem instead; the compiler is clang 14 (see crashcut cc), or g++: what its callbacks do not tell "
      "(flushes, fences, plain accesses) is trapped then");
  command->add_flag("--late", pmem->instrumentation.is_late, "with --pmem: instrument after optimisation");
  command
      ->add_option("--allow-asm", pmem->instrumentation.allowed_assembly,
                   "with --pmem: leave assembly that contains TEXT as it is, unseen")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command->add_option("compiler", *compiler, "the compiler's command: gcc, g++, clang or clang++ (default: cc)")
      ->type_name("COMPILER");
  command->footer(
      "For compiling and for linking. The program also runs without crashcut.\n\n"
      "Example: g++ $(crashcut flags g++) -o counter counter.cc && crashcut threads ./counter\n"
      "         g++ $(crashcut flags --pmem g++) -mclwb -o list list.cc && crashcut pmem ./list");
  command->callback([compiler, pmem, &exit_code] {
    const auto flags = pmem->is_asked ? pmem_flags(*compiler, pmem->instrumentation) : instrumentation_flags(*compiler);
    if (flags) fmt::print("{}\n", fmt::join(*flags, " "));
    exit_code = flags ? 0 : report_failure(flags.error());
  });
}

}  // namespace crashcut::cli
