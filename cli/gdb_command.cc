// crashcut gdb: gdb on a threaded program at a step of a schedule that was found.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/machines.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/thread_commands.h"
#include "recovery/result/text.h"
#include "recovery/threads/result.h"
#include "recovery/threads/story.h"
#include "recovery/threads/token.h"

namespace crashcut::cli {
namespace {

using result::Failure;
using result::wrong_use;
namespace fs = boost::filesystem;

struct GdbOptions {
  std::uint32_t hold = 0;     // for gdb_commands.py: wait at this step, say where, and go when our input ends
  bool prints_steps = false;  // for gdb_commands.py
  std::string program, from_directory;
};

// JSON's strings are Python's.
std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// gdb takes our place. It calls us again, with --hold and --steps.
tl::expected<int, Failure> become_gdb(const GdbOptions& options, const std::vector<std::string>& words) {
  const fs::path own = fs::read_symlink("/proc/self/exe");
  const std::string script = (own.parent_path() / "crashcut_gdb.py").string();
  if (!fs::exists(script))
    return tl::unexpected(Failure{result::Blame::kTool, fmt::format("gdb's commands are missing: {}.", script)});
  nlohmann::json found = nlohmann::json::array();
  if (!options.program.empty()) found.insert(found.end(), {"--program", options.program});
  if (!options.from_directory.empty()) found.insert(found.end(), {"--from", options.from_directory});
  found.push_back(words[0]);
  std::vector<std::string> command = {
      "gdb",  "-q",  "-x",
      script, "-ex", fmt::format("python session.begin({}, {})", quoted(own.string()), found.dump())};
  command.insert(command.end(), words.begin() + 1, words.end());
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp("gdb", argv.data());
  return wrong_use(fmt::format("Cannot run gdb: {}.", std::strerror(errno)));
}

void wait_for_end_of_input() {
  char unused;
  while (read(0, &unused, 1) > 0) {
  }
}

using Prepared = tl::expected<std::map<std::string, Program>, Failure>;

Prepared prepare_program(const GdbOptions& options, const result::Token& token, recovery::ThreadPlan& plan) {
  const auto named = find_program(token, options.program, "");
  if (!named) return tl::unexpected(named.error());
  const auto from = absolute_directory(options.from_directory.empty() ? token.from : options.from_directory);
  if (!from) return tl::unexpected(from.error());
  plan.from_directory = *from;
  auto program = prepare(plan, *named, how_compiled(plan));
  if (!program) return tl::unexpected(program.error());
  std::map<std::string, Program> programs;
  programs.emplace(*named, std::move(*program));
  return programs;
}

// Machines may run several programs: they are looked for where one of them is.
std::string directory_of(const std::string& program) {
  return program.empty() ? "" : fs::path(program).parent_path().string();
}

tl::expected<int, Failure> run(const GdbOptions& options, const std::vector<std::string>& words) {
  const auto decoded = result::decode(words[0]);
  if (!decoded) return wrong_use(decoded.error());
  const bool has_machines = decoded->command == "cxl";
  if (decoded->command != "threads" && !has_machines)
    return wrong_use("crashcut gdb takes tokens of crashcut threads and crashcut cxl.");
  const auto token = recovery::read_thread_token(*decoded);
  if (!token) return tl::unexpected(token.error());
  recovery::ThreadPlan plan = token->plan;
  const auto prepared = has_machines ? prepare_cxl_token(plan, *decoded, directory_of(options.program))
                                     : prepare_program(options, *decoded, plan);
  if (!prepared) return tl::unexpected(prepared.error());
  if (options.hold == 0 && !options.prints_steps) return become_gdb(options, words);
  if (options.prints_steps) {
    const auto finding = recovery::replay_threads(plan, token->schedule, std::nullopt, {});
    if (!finding) return tl::unexpected(finding.error());
    const result::Counterexample told = recovery::counterexample_of(plan, *finding);
    for (const std::string& line : result::schedule_lines(told.story)) fmt::print("{}\n", line);
    return 0;
  }
  const auto held = recovery::hold_threads(plan, token->schedule, options.hold, [&](int process) {
    fmt::print("held\t{}\t{}\n", process, fmt::join(recovery::actor_names(token->schedule.actors), "\t"));
    std::fflush(stdout);
    wait_for_end_of_input();
  });
  if (!held) return tl::unexpected(held.error());
  return 0;
}

}  // namespace

void add_gdb_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<GdbOptions>();
  CLI::App* command = app.add_subcommand(
      "gdb", "gdb on a program, at the steps of a schedule that crashcut threads or crashcut cxl found");
  command->formatter(usage_formatter("crashcut gdb TOKEN [gdb's options...]"));
  command->prefix_command();
  command->add_option("--hold", options->hold, "")->group("");
  command->add_flag("--steps", options->prints_steps, "")->group("");
  command->add_option("--program", options->program, "the program, where it is not found by itself")->type_name("PATH");
  command->add_option("--from", options->from_directory, "the tree that the disk starts as, likewise")
      ->type_name("DIR");
  command->footer(
      "It begins after the last step, in the machine that took it. Commands of gdb's, beside its own:\n"
      "  crashcut goto N        run the program up to and with step N\n"
      "  crashcut forward       one step on\n"
      "  crashcut back          one step back: the program is run again\n"
      "  crashcut schedule      the steps\n"
      "  crashcut threads       the program's threads and where each stands (gdb's own threads shows one)\n"
      "  crashcut backtrace N   the calls of one of them\n\n"
      "Example: crashcut gdb ct1... -batch -ex 'crashcut goto 5' -ex backtrace");
  command->callback([command, options, &exit_code] {
    const auto code = run(*options, program_words(*command, "token"));
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
