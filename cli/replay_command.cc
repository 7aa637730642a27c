// crashcut replay: one recovery again, by its token.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/mounted_options.h"
#include "cli/options.h"
#include "cli/program.h"
#include "recovery/mounted/check.h"
#include "recovery/mounted/report.h"
#include "recovery/report.h"
#include "recovery/threads/token.h"
#include "recovery/token.h"

namespace crashcut::cli {
namespace {

using inprocess::Failure;

struct ReplayOptions {
  Options common;  // the limits
  std::string token;
  bool print = false;
  bool shell = false;
  std::string image_directory;
};

tl::expected<int, Failure> replay(const ReplayOptions& options) {
  if (options.token.starts_with(recovery::kThreadTokenPrefix))
    return replay_thread_token(options.token, std::chrono::seconds(options.common.recovery_limit_s), options.print);
  if (!options.token.starts_with("cc1")) {
    return tl::unexpected(Failure{
        Failure::Blame::kUser,
        "This is not a token of this version: those begin with cc1 (of crashcut run), cm1 (check) or ct1 (threads)."});
  }
  const auto token = recovery::decode(options.token);
  if (!token) return tl::unexpected(Failure{Failure::Blame::kUser, token.error()});
  const auto runtime = find_runtime();
  if (!runtime) return tl::unexpected(runtime.error());
  const auto program = Program::prepare(token->program);
  if (!program) return tl::unexpected(program.error());
  recovery::Plan plan = recovery::plan_of(*token);
  plan.executable = program->executable();
  plan.runtime = *runtime;
  plan.main_limit = std::chrono::seconds(options.common.main_limit_s);
  plan.recovery_limit = std::chrono::seconds(options.common.recovery_limit_s);

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

tl::expected<int, mounted::Failure> replay_mounted(const ReplayOptions& options) {
  const auto token = mounted::decode_token(options.token);
  if (!token) return tl::unexpected(mounted::Failure{true, token.error()});
  if (!options.image_directory.empty()) {
    if (auto ok = mounted::write_image(*token, options.image_directory); !ok) return tl::unexpected(ok.error());
    fmt::print("the state is in {}\n", options.image_directory);
    return 0;
  }
  if (options.shell) {
    fmt::print("a shell in the crashed disk, {}; exit leaves it\n", mounted::disk_of(token->directory));
    std::fflush(stdout);
    return mounted::open_shell(*token);
  }
  fmt::print("crashcut replay: {} | {} | one recovery\n", recovery::printable(mounted::trace_of(token->directory)),
             fusefs::describe(token->model));
  const auto example = mounted::replay(*token);
  if (!example) return tl::unexpected(example.error());
  if (options.print) fmt::print("{}\n", mounted::report_violation(*example, true));
  const bool violates = mounted::is_violation(example->key.finding);
  fmt::print("{}: {}\n", violates ? "violation" : "no violation",
             violates
                 ? fmt::format("{}: {}", mounted::to_text(example->key.finding), recovery::printable(example->sentence))
                 : recovery::printable(example->key.message));
  return violates ? 1 : 0;
}

}  // namespace

void add_replay_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App* command = app.add_subcommand(
      "replay", "run one recovery, or one schedule, again by the token that was printed with a violation");
  command
      ->add_option("token", options->token,
                   "begins with cc1 (crashcut run), cm1 (crashcut check) or ct1 (crashcut threads)")
      ->required()
      ->type_name("TOKEN");
  command->add_flag("--shell", options->shell, "of crashcut check: open a shell in the crashed disk");
  command
      ->add_option("--image", options->image_directory,
                   "of crashcut check: write the crashed disk to DIR as a plain tree")
      ->type_name("DIR");
  command->add_flag("--print", options->print, "tell all of it: operations, choices, calls, output");
  add_main_limit(*command, options->common);
  add_recovery_limit(*command, options->common);
  command->formatter(usage_formatter("crashcut replay [options] TOKEN"));
  command->footer(
      "A program that does other things than when the token was made is refused.\n\n"
      "Exit codes: 0 no violation this time, 1 violation, 2 wrong use, 4 crashcut's own failure");
  command->callback([command, options, &exit_code] {
    const bool is_mounted = options->token.starts_with(mounted::kTokenPrefix);
    if ((is_mounted && command->count("--recovery-limit") > 0) ||
        (!options->token.starts_with("cc1") && command->count("--main-limit") > 0)) {
      exit_code = report_failure({inprocess::Failure::Blame::kUser,
                                  "--main-limit is for tokens of crashcut run, which begin with cc1, and "
                                  "--recovery-limit for these and those of crashcut threads."});
      return;
    }
    if (is_mounted) {
      const auto code = replay_mounted(*options);
      exit_code = code ? *code : report_failure(as_failure(code.error()));
      return;
    }
    if (options->shell || !options->image_directory.empty()) {
      exit_code = report_failure({inprocess::Failure::Blame::kUser,
                                  "--shell and --image are for tokens of crashcut check, which begin with cm1."});
      return;
    }
    const auto code = replay(*options);
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
