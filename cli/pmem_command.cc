// crashcut pmem: every recovery of one program that keeps its data in persistent memory.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/commands.h"
#include "cli/machines.h"
#include "cli/program_command.h"
#include "pmem/notes.h"

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
  std::string notes;
};

struct NoteName {
  const char* name;
  std::uint32_t kinds;
};
constexpr std::uint32_t bits(std::initializer_list<pmem::NoteKind> kinds) {
  std::uint32_t all = 0;
  for (const pmem::NoteKind kind : kinds) all |= static_cast<std::uint32_t>(kind);
  return all;
}
constexpr NoteName kNoteNames[] = {
    {"flushes", bits({pmem::NoteKind::kRedundantFlush, pmem::NoteKind::kRedundantFence})},
    {"overwrites", bits({pmem::NoteKind::kOverwrite})},
    {"torn", bits({pmem::NoteKind::kTorn})},
    {"robustness", bits({pmem::NoteKind::kNotRobust})},
    {"races", bits({pmem::NoteKind::kRace})},
    {"unpersisted", bits({pmem::NoteKind::kUnpersisted})},
    {"all", ~std::uint32_t{0}},
};

// Of names with commas between them.
tl::expected<std::uint32_t, result::Failure> kinds_of(const std::string& names) {
  std::uint32_t kinds = 0;
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    const auto known = std::find_if(std::begin(kNoteNames), std::end(kNoteNames),
                                    [&](const NoteName& note) { return name == note.name; });
    if (known == std::end(kNoteNames)) {
      return result::wrong_use(fmt::format(
          "--notes {}: there are flushes, overwrites, torn, robustness, races, unpersisted and all.", name));
    }
    kinds |= known->kinds;
  }
  return kinds;
}

void add_memory_options(CLI::App& command, MemoryOptions& options) {
  command
      .add_option(
          "--persistency", options.persistency,
          "when a store is durable: px86 (a flush and a fence; default), eadr (when it is seen), strict (the same, "
          "non-temporal stores too)")
      ->type_name("px86|eadr|strict")
      ->check(CLI::IsMember({"px86", "eadr", "strict"}).description(""));
  command
      .add_option("--atomic", options.atomic_bytes, "how wide an aligned store may be that no crash tears (default: 8)")
      ->type_name("8|16|64")
      ->check(CLI::IsMember({8u, 16u, 64u}).description(""));
  command.add_flag("--no-tearing", options.is_whole,
                   "what one store or copy writes to one cache line is whole or absent");
  command.add_flag("--trap", options.traps,
                   "code that is not instrumented may touch persistent memory: each access is trapped and emulated");
  command.add_flag("--malloc", options.has_heap,
                   "malloc(), new and their kin in instrumented code return persistent memory");
  add_schedules_option(command, options.schedules);
  command
      .add_option(
          "--notes", options.notes,
          "what else to note: flushes and fences that do nothing, overwrites of what is not durable, torn stores, "
          "loads that are not robust, races of plain stores, durable effects of what another thread had not made "
          "durable (default: nothing)")
      ->type_name("flushes,overwrites,torn,robustness,races,unpersisted|all");
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
                 "--trap any executable will do, and source is compiled without instrumentation. What g++ has\n"
                 "compiled with the flags of crashcut flags --pmem g++ is taken as well.\n\n"
                 "Example: crashcut pmem --outcomes tree.cpp 100\n\n",
       .add_options = [options](CLI::App& command) { add_memory_options(command, *options); },
       .complete = [options](recovery::Plan& plan) -> tl::expected<void, result::Failure> {
         plan.memory = pmem::MemoryModel{.persistency = *pmem::parse_persistency(options->persistency),
                                         .atomic_bytes = options->atomic_bytes,
                                         .has_tearing = !options->is_whole,
                                         .has_heap = options->has_heap};
         plan.traps = options->traps;
         const auto notes = kinds_of(options->notes);
         if (!notes) return tl::unexpected(notes.error());
         plan.notes = *notes;
         return {};
       },
       .schedules = &options->schedules});
}

}  // namespace crashcut::cli
