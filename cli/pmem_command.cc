// crashcut pmem: every recovery of one program that keeps its data in persistent memory.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/machines.h"
#include "cli/program_command.h"

namespace crashcut::cli {
namespace {

// As typed.
struct MemoryOptions {
  std::string persistency = "px86";
  unsigned atomic_bytes = 8;
  bool is_whole = false;
  bool traps = false;
  bool has_heap = false;
  std::string schedules;
};

void add_memory_options(CLI::App& command, MemoryOptions& options) {
  command
      .add_option(
          "--persistency", options.persistency,
          "when a store is durable: px86 (a flush and a fence; default), eadr (when it is seen), strict (the same, "
          "non-temporal stores too)")
      ->type_name("px86|eadr|strict")
      ->check(CLI::IsMember({"px86", "eadr", "strict"}));
  command
      .add_option("--atomic", options.atomic_bytes, "how wide an aligned store may be that no crash tears (default: 8)")
      ->type_name("8|16|64")
      ->check(CLI::IsMember({8u, 16u, 64u}));
  command.add_flag("--no-tearing", options.is_whole,
                   "what one store or copy writes to one cache line is whole or absent");
  command.add_flag("--trap", options.traps,
                   "code that is not instrumented may touch persistent memory: each access is trapped and emulated");
  command.add_flag("--malloc", options.has_heap,
                   "malloc(), new and their kin in instrumented code return persistent memory");
  add_schedules_option(command, options.schedules);
}

}  // namespace

void add_pmem_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<MemoryOptions>();
  add_program_command(
      app, exit_code,
      {.name = "pmem",
       .description = "the same for a program that keeps its data in persistent memory",
       .footer = "prog is an executable that crashcut cc --pmem or crashcut cxx --pmem compiled, or C or C++\n"
                 "source, which is compiled so first. Its persistent memory is what crashcut_pmem() of crashcut.h\n"
                 "returns, files below pmem/ that it maps, and with --malloc its heap. After the crash\n"
                 "crashcut_recover() runs; without one, main() again. Files are on the modelled disk. With\n"
                 "--trap any executable will do, and source is compiled without instrumentation.\n\n"
                 "Example: crashcut pmem --outcomes tree.cpp 100\n\n",
       .add_options = [options](CLI::App& command) { add_memory_options(command, *options); },
       .complete = [options](recovery::Plan& plan) -> tl::expected<void, result::Failure> {
         plan.memory = pmem::MemoryModel{.persistency = *pmem::parse_persistency(options->persistency),
                                         .atomic_bytes = options->atomic_bytes,
                                         .has_tearing = !options->is_whole,
                                         .has_heap = options->has_heap};
         plan.traps = options->traps;
         if (plan.traps && !options->schedules.empty())
           return result::wrong_use("--schedules needs instrumented code: --trap does not follow threads.");
         return {};
       },
       .schedules = &options->schedules});
}

}  // namespace crashcut::cli
