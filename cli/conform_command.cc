// crashcut conform: is every state that the kernel's ext4 shows one that the model allows?
#include <fmt/format.h>

#include <boost/filesystem.hpp>
#include <fstream>

#include "cli/commands.h"
#include "cli/conform_case.h"
#include "cli/conform_table.h"
#include "cli/conformer.h"
#include "cli/interrupts.h"
#include "cli/options.h"
#include "recovery/kernel/filesystem.h"
#include "recovery/result/words.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using result::Failure;
using result::wrong_use;

struct ConformOptions {
  std::vector<std::string> mounts;  // "data=journal"
  ConformSets sets;
  ConformBounds bounds;
  std::string report, update;
};

std::string command_of(const ConformOptions& options) {
  const ConformSets& sets = options.sets;
  std::string text = "crashcut conform";
  if (sets.is_seq1) text += " --seq1";
  if (sets.seq2_count > 0) text += fmt::format(" --seq2 {}", sets.seq2_count);
  if (sets.random_count > 0) text += fmt::format(" --random {}", sets.random_count);
  if (!sets.litmus.empty()) text += fmt::format(" --litmus {}", sets.litmus);
  for (const std::string& program : sets.programs) text += fmt::format(" --program '{}'", program);
  if (!sets.calls.empty()) text += fmt::format(" --call {}", fmt::join(sets.calls, " "));
  if (sets.step > 1) text += fmt::format(" --every {}", sets.step);
  if (sets.limit > 0) text += fmt::format(" --most {}", sets.limit);
  text += fmt::format(" --runs {} --subsets {} --seed {}", options.bounds.runs, options.bounds.subsets, sets.seed);
  for (const std::string& mount : options.mounts) text += " -o " + mount;
  return text;
}

tl::expected<int, Failure> report(const ConformOptions& options, const std::vector<ConformRow>& rows) {
  const std::string what =
      fmt::format("{} on the kernel each, at most {} images between two flushes, seed {}",
                  result::count_text(options.bounds.runs, "run", "runs"), options.bounds.subsets, options.sets.seed);
  const std::string table = table_of(rows, what);
  fmt::print("{}", table);
  if (!options.report.empty() && !(std::ofstream(options.report) << table))
    return wrong_use(fmt::format("--report {}: it cannot be written.", options.report));
  if (!options.update.empty() && !is_interrupted()) {
    if (auto ok = update_file(options.update, fmt::format("`{}`, on {}", command_of(options), table)); !ok)
      return tl::unexpected(ok.error());
  }
  std::uint64_t outside = 0;
  for (const ConformRow& row : rows) outside += row.outside;
  fmt::print("{}: {} outside of the model\n", outside == 0 ? "conforms" : "violation",
             result::count_text(outside, "state", "states"));
  if (outside > 0) return 1;
  return is_interrupted() ? 3 : 0;
}

tl::expected<int, Failure> conform(ConformOptions options) {
  if (options.mounts.empty()) options.mounts.emplace_back("data=ordered");
  options.bounds.seed = options.sets.seed;
  if (!options.update.empty() && !fs::is_regular_file(options.update))
    return wrong_use(fmt::format("--update {}: there is no such file.", options.update));
  if (const std::string missing = kernel::what_is_missing({"ext4", ""}); !missing.empty()) return wrong_use(missing);
  const auto cases = cases_of(options.sets);
  if (!cases) return tl::unexpected(cases.error());
  const fs::path directory = fs::temp_directory_path() / fs::unique_path("crashcut-conform-%%%%%%%%");
  fs::create_directories(directory);
  std::vector<ConformRow> rows;
  tl::expected<int, Failure> code = 0;
  const SearchSignals signals;
  for (const std::string& mount : options.mounts) {
    if (is_interrupted()) break;
    const auto more = conform_with(mount, cases->cases, options.bounds, directory.string());
    if (!more) {
      code = tl::unexpected(more.error());
      break;
    }
    rows.insert(rows.end(), more->begin(), more->end());
    for (const ConformRow& row : *more)
      fmt::print(stderr, "{}, {}: {}, {} outside\n", row.options, row.set,
                 result::count_text(row.programs, "program", "programs"), row.outside);
  }
  boost::system::error_code error;
  fs::remove_all(directory, error);
  if (!code) return code;
  return report(options, rows);
}

void add_sets(CLI::App& command, ConformSets& sets) {
  command.add_flag("--seq1", sets.is_seq1, "all sequences of one operation (the default if nothing else is asked for)");
  command.add_option("--seq2", sets.seq2_count, "so many sequences of two operations, by the seed")->type_name("N");
  command.add_option("--random", sets.random_count, "so many sequences of three or four operations, by the seed")
      ->type_name("N");
  command
      .add_option("--litmus", sets.litmus,
                  "every program in C of this directory that has main() and crashcut_recover(), with the arguments of "
                  "the first `run:` in its opening comment")
      ->type_name("DIRECTORY");
  command
      .add_option("--program", sets.programs,
                  "this program with main() and crashcut_recover(), its arguments behind blanks; may be given more "
                  "than once")
      ->type_name("'PROG ARG...'")
      ->allow_extra_args(false);
  command.add_option("--call", sets.calls, "this sequence only, a call each: mkdir:A barrier creat:A/foo sync")
      ->type_name("CALL");
  command.add_option("--every", sets.step, "take every Nth of each set only, but every --program")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000000u));
  command.add_option("--most", sets.limit, "take at most so many of each set")->type_name("N");
  command.add_option("--seed", sets.seed, "of the samples and of the images (default: 0)")->type_name("N");
}

}  // namespace

void add_conform_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ConformOptions>();
  CLI::App* command = app.add_subcommand(
      "conform", "is every state that the kernel's ext4 shows one that the model allows? needs root");
  command
      ->add_option("-o", options->mounts,
                   "mount options for both sides: data=journal, nodelalloc (default: data=ordered); may be given more "
                   "than once, a row each")
      ->type_name("OPTIONS")
      ->allow_extra_args(false);
  add_sets(*command, options->sets);
  command->add_flag("--slack", options->bounds.shows_slack,
                    "print what the model allows and the kernel did not show, with the rule that allows it");
  command->add_option("--update", options->update, "put the table between the lines of this file that say where")
      ->type_name("FILE");
  command->add_option("--runs", options->bounds.runs, "runs on the kernel a program (default: 4)")
      ->type_name("N")
      ->check(CLI::Range(1u, 100000u));
  command->add_option("--subsets", options->bounds.subsets, "images between two flushes, at most (default: 32)")
      ->type_name("N")
      ->check(CLI::Range(2u, 1u << 20));
  command->add_option("--jobs", options->bounds.jobs, "programs at a time (default: 2)")
      ->type_name("N")
      ->check(CLI::Range(1u, 64u));
  command->add_option("--report", options->report, "write the table to this file")->type_name("FILE");
  command->footer(
      "A state that the kernel shows and the model does not allow is a bug of the model.\n\n"
      "Exit codes: 0 all states are allowed, 1 some are not, 2 wrong use, 3 it was interrupted,\n"
      "4 crashcut's own failure");
  command->callback([options, &exit_code] {
    const auto code = conform(*options);
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
