// crashcut gdb: gdb on a program at a step of what was found: of a schedule, of main() before a crash, of a recovery.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/machines.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/thread_commands.h"
#include "recovery/debug.h"
#include "recovery/result/text.h"
#include "recovery/run_token.h"
#include "recovery/threads/result.h"
#include "recovery/threads/story.h"
#include "recovery/threads/token.h"

namespace crashcut::cli {
namespace {

using result::Failure;
using result::wrong_use;
namespace fs = boost::filesystem;

struct GdbOptions {
  std::string hold;           // for gdb_commands.py: wait at this step, say where, and go when our input ends
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

// For gdb_commands.py: the process that waits, and more words.
recovery::OnHeld tell_held(const std::vector<std::string>& more) {
  return [more](int process) {
    fmt::print("held\t{}\t{}\n", process, fmt::join(more, "\t"));
    std::fflush(stdout);
    wait_for_end_of_input();
  };
}

tl::expected<int, Failure> end_of_hold(const tl::expected<bool, Failure>& was_held) {
  if (!was_held) return tl::unexpected(was_held.error());
  if (!*was_held) return wrong_use("The program did not come to this step.");
  return 0;
}

// One line a step: where --hold finds it, and its text. Those after the first `first` get their numbers here.
void print_steps(const std::vector<recovery::DebugStep>& steps, std::size_t first) {
  for (const recovery::DebugStep& step : steps)
    fmt::print("{}\t{:>4}  {}\n", recovery::encode(step.point), ++first, step.text);
}

// What the debugger is to stop at where the recovery begins.
std::string recovery_function(const std::string& executable) {
  std::ifstream file(executable, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return bytes.find("crashcut_recover") == std::string::npos ? "main" : "crashcut_recover";
}

tl::expected<int, Failure> print_thread_steps(const recovery::ThreadPlan& plan, const recovery::ThreadToken& token) {
  const auto finding = recovery::replay_threads(plan, token.schedule, token.recovery, {});
  if (!finding) return tl::unexpected(finding.error());
  const result::Counterexample told = recovery::counterexample_of(plan, *finding);
  std::size_t number = 0;
  for (const std::string& line : result::schedule_lines(told.story)) fmt::print("{}\t{}\n", ++number, line);
  if (token.recovery) print_steps(recovery::steps_of_recovery(finding->crash->story, token.recovery->path), number);
  return 0;
}

tl::expected<int, Failure> hold_schedule(const std::string& where, const recovery::ThreadPlan& plan,
                                         const recovery::ThreadToken& token) {
  const std::vector<std::string> names = recovery::actor_names(token.schedule.actors);
  if (where.find(':') == std::string::npos) {
    const auto step = static_cast<std::uint32_t>(std::strtoul(where.c_str(), nullptr, 10));
    const auto held = recovery::hold_threads(plan, token.schedule, step, tell_held(names));
    if (!held) return tl::unexpected(held.error());
    return 0;
  }
  const auto point = recovery::decode_hold_point(where);
  if (!point || !token.recovery) return wrong_use(point ? "There is no recovery in this token." : point.error());
  return end_of_hold(recovery::hold_recovery(plan, token.schedule, *token.recovery, point->number,
                                             tell_held({recovery_function(plan.executable)})));
}

tl::expected<int, Failure> run_threads(const GdbOptions& options, const result::Token& decoded,
                                       const std::vector<std::string>& words) {
  const bool has_machines = decoded.command == "cxl";
  const auto token = recovery::read_thread_token(decoded);
  if (!token) return tl::unexpected(token.error());
  recovery::ThreadPlan plan = token->plan;
  const auto prepared = has_machines ? prepare_cxl_token(plan, decoded, directory_of(options.program))
                                     : prepare_program(options, decoded, plan);
  if (!prepared) return tl::unexpected(prepared.error());
  if (options.prints_steps) return print_thread_steps(plan, *token);
  if (!options.hold.empty()) return hold_schedule(options.hold, plan, *token);
  return become_gdb(options, words);
}

// A token of crashcut run or crashcut pmem: one recovery.
tl::expected<int, Failure> run_recovery(const GdbOptions& options, const result::Token& token,
                                        const std::vector<std::string>& words) {
  auto plan = recovery::plan_of(token);
  if (!plan) return tl::unexpected(plan.error());
  const auto named = find_program(token, options.program, "");
  if (!named) return tl::unexpected(named.error());
  const auto from = absolute_directory(options.from_directory.empty() ? token.from : options.from_directory);
  if (!from) return tl::unexpected(from.error());
  plan->from_directory = *from;
  const auto program = prepare_run(*plan, *named);
  if (!program) return tl::unexpected(program.error());
  if (!options.prints_steps && options.hold.empty()) return become_gdb(options, words);
  plan->main_stdout_fd = STDERR_FILENO;  // our own output is for gdb_commands.py
  if (options.prints_steps) {
    const auto steps = recovery::debug_steps(*plan, token);
    if (!steps) return tl::unexpected(steps.error());
    print_steps(*steps, 0);
    return 0;
  }
  const auto point = recovery::decode_hold_point(options.hold);
  if (!point) return wrong_use(point.error());
  return end_of_hold(recovery::hold_program(*plan, token, *point, tell_held({recovery_function(plan->executable)})));
}

tl::expected<int, Failure> run(const GdbOptions& options, const std::vector<std::string>& words) {
  const auto token = result::decode(words[0]);
  if (!token) return wrong_use(token.error());
  if (token->command == "threads" || token->command == "cxl") return run_threads(options, *token, words);
  if (token->command == recovery::kRunCommand || token->command == recovery::kMemoryCommand)
    return run_recovery(options, *token, words);
  return wrong_use(
      "crashcut gdb takes tokens of crashcut run, crashcut pmem, crashcut threads and crashcut cxl: what crashcut "
      "check "
      "runs are programs of any kind, and its checker is one of yours.");
}

}  // namespace

void add_gdb_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<GdbOptions>();
  CLI::App* command = app.add_subcommand(
      "gdb", "gdb on a program, at the steps of a schedule, of main() before a crash, of a recovery");
  command->formatter(usage_formatter("crashcut gdb TOKEN [gdb's options...]"));
  command->prefix_command();
  command->add_option("--hold", options->hold, "")->group("");
  command->add_flag("--steps", options->prints_steps, "")->group("");
  command->add_option("--program", options->program, "the program, where it is not found by itself")->type_name("PATH");
  command->add_option("--from", options->from_directory, "the tree that the disk starts as, likewise")
      ->type_name("DIR");
  command->footer(
      "TOKEN is one of crashcut threads or crashcut cxl: steps are those of the schedule; or of crashcut\n"
      "run or crashcut pmem: steps are the operations of main() up to the crash, with the numbers of the\n"
      "report, then the beginning of the recovery, and each call or load of it that depended on the crash.\n"
      "Persistent memory has what the program sees at the step; after the crash, bytes that recovery has\n"
      "not loaded yet are zero.\n\n"
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
