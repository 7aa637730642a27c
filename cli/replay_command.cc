// crashcut replay: one recovery again, by its token.
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/program.h"
#include "recovery/report.h"
#include "recovery/threads/token.h"
#include "recovery/token.h"

namespace crashcut::cli {
namespace {

using inprocess::Failure;

struct ReplayOptions {
  std::string token;
  bool print = false;
};

tl::expected<int, Failure> replay(const ReplayOptions& options) {
  if (options.token.starts_with(recovery::kThreadTokenPrefix)) return replay_thread_token(options.token, options.print);
  const auto token = recovery::decode(options.token);
  if (!token) return tl::unexpected(Failure{Failure::Blame::kUser, token.error()});
  const auto runtime = find_runtime();
  if (!runtime) return tl::unexpected(runtime.error());
  const auto program = Program::prepare(token->program);
  if (!program) return tl::unexpected(program.error());
  recovery::Plan plan = recovery::plan_of(*token);
  plan.executable = program->executable();
  plan.runtime = *runtime;

  fmt::print("{}", recovery::report_replay_start(plan));
  std::fflush(stdout);
  recovery::Hooks hooks = interruptible_hooks();
  if (!options.print) hooks.stdout_fd = hooks.stderr_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const auto account = recovery::replay(plan, token->fingerprint, token->path, hooks);
  if (!account) return tl::unexpected(account.error());

  if (options.print) fmt::print("{}\n", recovery::report_account(*account, recovery::Detail::kAll));
  const bool is_violation = inprocess::is_violation(account->failure.kind);
  const std::string message =
      account->failure.message.empty() ? "" : ": " + recovery::printable(account->failure.message);
  fmt::print("{}: {}{}\n", is_violation ? "violation" : "no violation", recovery::to_text(account->failure),
             is_violation ? message : "");
  return is_violation ? 1 : 0;
}

}  // namespace

void add_replay_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App* command = app.add_subcommand("replay", "run one recovery, or one schedule, again by its token");
  command->add_option("token", options->token, "begins with cc1 (crashcut run) or ct1 (crashcut threads)")->required()->type_name("TOKEN");
  command->add_flag("--print", options->print, "tell all of it: operations, choices, calls, output");
  command->footer(
      "A program that does other things than when the token was made is refused.\n\n"
      "Exit codes: 0 no violation this time, 1 violation, 2 wrong use, 4 crashcut's own failure");
  command->callback([options, &exit_code] {
    const auto code = replay(*options);
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
