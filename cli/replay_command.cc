// crashcut replay: one recovery, or one schedule, again: by its token, or by the directory of the results.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <fstream>

#include "cli/bounds.h"
#include "cli/commands.h"
#include "cli/conform_result.h"
#include "cli/machines.h"
#include "cli/options.h"
#include "cli/program.h"
#include "recovery/device/check.h"
#include "recovery/kernel/check.h"
#include "recovery/mounted/check.h"
#include "recovery/result/text.h"
#include "recovery/result/words.h"
#include "recovery/run.h"
#include "recovery/run_token.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using result::Failure;
using result::wrong_use;

struct ReplayOptions {
  Options common;    // the limits, --from
  std::string what;  // a token, or a directory
  std::string program, results;
  bool print = false;
  bool shell = false;
  std::string image_directory;
};

// A token, and the directory that it was found in.
struct Found {
  result::Token token;
  std::string directory;
};

tl::expected<Found, Failure> find_token(const std::string& what) {
  Found found;
  std::string text = what;
  boost::system::error_code error;
  if (fs::is_directory(what, error)) {
    found.directory = what;
    std::ifstream file(what + "/token");
    if (!(file >> text)) return wrong_use(fmt::format("There is no token in {}: nothing was found there.", what));
  }
  auto token = result::decode(text);
  if (!token && what.find('/') != std::string::npos && !fs::exists(what, error))
    return wrong_use(fmt::format("There is no directory {}.", what));
  if (!token) return wrong_use(token.error());
  found.token = std::move(*token);
  return found;
}

// The directory that the disk starts as: --from, or where the token says.
tl::expected<std::string, Failure> starting_directory(const ReplayOptions& options, const result::Token& token) {
  return absolute_directory(options.common.from_directory.empty() ? token.from : options.common.from_directory);
}

tl::expected<int, Failure> replay_run(const ReplayOptions& options, const Found& found) {
  auto plan = recovery::plan_of(found.token);
  if (!plan) return tl::unexpected(plan.error());
  const auto named = find_program(found.token, options.program, found.directory);
  if (!named) return tl::unexpected(named.error());
  const auto program = prepare_run(*plan, *named);
  if (!program) return tl::unexpected(program.error());
  const auto from = starting_directory(options, found.token);
  if (!from) return tl::unexpected(from.error());
  plan->from_directory = *from;
  plan->main_limit = std::chrono::seconds(options.common.main_limit_s);
  plan->recovery_limit = std::chrono::seconds(options.common.recovery_limit_s);
  std::vector<std::string> words = {*named};
  words.insert(words.end(), plan->arguments.begin(), plan->arguments.end());
  print(stdout, result::head_text(recovery::head_of("replay", *plan, words)));
  if (!options.print) plan->main_stdout_fd = plan->main_stderr_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const auto replayed = recovery::replay(*plan, found.token);
  if (!replayed) return tl::unexpected(replayed.error());
  if (options.print) fmt::print("{}\n", result::story_text(replayed->told.story, result::Detail::kAll));
  fmt::print("{}", result::replay_end_text(replayed->told, replayed->is_violation));
  return replayed->is_violation ? 1 : 0;
}

tl::expected<int, Failure> replay_threads(const ReplayOptions& options, const Found& found) {
  const auto named = find_program(found.token, options.program, found.directory);
  if (!named) return tl::unexpected(named.error());
  const auto from = starting_directory(options, found.token);
  if (!from) return tl::unexpected(from.error());
  return replay_thread_token(found.token, *named, *from, std::chrono::seconds(options.common.recovery_limit_s),
                             options.print);
}

tl::expected<int, Failure> replay_cxl(const ReplayOptions& options, const Found& found) {
  const std::string directory =
      options.program.empty() ? found.directory : fs::absolute(options.program).parent_path().string();
  return replay_cxl_token(found.token, directory, options.print);
}

tl::expected<int, Failure> tell(const ReplayOptions& options, const tl::expected<search::Replayed, Failure>& replayed) {
  if (!replayed) return tl::unexpected(replayed.error());
  const result::Counterexample& told = replayed->told;
  if (options.print) {
    fmt::print("{}\n", replayed->is_violation ? result::counterexample_text(told, result::Detail::kAll)
                                              : result::story_text(told.story, result::Detail::kAll));
  }
  fmt::print("{}", result::replay_end_text(told, replayed->is_violation));
  return replayed->is_violation ? 1 : 0;
}

tl::expected<int, Failure> replay_check(const ReplayOptions& options, const Found& found) {
  const auto token = mounted::read_token(found.token, options.results.empty() ? found.directory : options.results);
  if (!token) return tl::unexpected(token.error());
  if (!options.image_directory.empty()) {
    if (auto ok = mounted::write_image(*token, options.image_directory); !ok) return tl::unexpected(ok.error());
    fmt::print("the state is in {}\n", options.image_directory);
    return 0;
  }
  if (options.shell) {
    print(stdout,
          fmt::format("a shell in the crashed disk, {}; exit leaves it\n", mounted::disk_of(token->plan.directory)));
    return mounted::open_shell(*token);
  }
  fmt::print("crashcut replay: {} | {} | one recovery\n", result::printable(mounted::trace_of(token->plan.directory)),
             fusefs::describe(token->plan.model));
  return tell(options, mounted::replay(*token));
}

tl::expected<int, Failure> replay_device(const ReplayOptions& options, const Found& found) {
  const auto token = device::read_token(found.token, options.results.empty() ? found.directory : options.results);
  if (!token) return tl::unexpected(token.error());
  if (!options.image_directory.empty()) {
    // The sandbox works in another directory.
    const std::string file = fs::absolute(options.image_directory).string();
    if (auto ok = device::write_image(*token, file); !ok) return tl::unexpected(ok.error());
    fmt::print("the device is in {}\n", options.image_directory);
    return 0;
  }
  if (options.shell) {
    print(stdout, fmt::format("a shell beside the crashed device, {}; exit leaves it\n",
                              mounted::disk_of(token->plan.common.directory)));
    return device::open_shell(*token);
  }
  fmt::print("crashcut replay: {} | {} | one recovery\n",
             result::printable(mounted::trace_of(token->plan.common.directory)),
             blocklayer::spec_of(token->plan.drive).text);
  return tell(options, device::replay(*token));
}

tl::expected<int, Failure> replay_kernel(const ReplayOptions& options, const Found& found) {
  const auto token = kernel::read_token(found.token, options.results.empty() ? found.directory : options.results);
  if (!token) return tl::unexpected(token.error());
  if (!options.image_directory.empty()) {
    if (auto ok = kernel::write_image(*token, options.image_directory); !ok) return tl::unexpected(ok.error());
    fmt::print("the disk is in {}; mount -o loop shows it, after the kernel's recovery\n", options.image_directory);
    return 0;
  }
  const std::string directory = token->plan.common.directory;
  if (options.shell) {
    print(stdout, fmt::format("a shell in the crashed disk, {}; exit leaves it\n", mounted::disk_of(directory)));
    return kernel::open_shell(*token);
  }
  fmt::print("crashcut replay: {} | {} | one image\n", result::printable(directory),
             token->plan.disk.filesystem.text());
  return tell(options, kernel::replay(*token));
}

tl::expected<int, Failure> replay_conform(const ReplayOptions& options, const Found& found) {
  return tell(options, replay_conform_token(found.token, options.results.empty() ? found.directory : options.results));
}

// One line a command that makes tokens: how they are replayed, and which options they take.
struct Replayer {
  std::string_view command;
  tl::expected<int, Failure> (*replay)(const ReplayOptions&, const Found&);
  std::string_view options;  // blank before and after each
};
constexpr Replayer kReplayers[] = {
    {"run", replay_run, " --program --from --main-limit --recovery-limit "},
    {"pmem", replay_run, " --program --from --main-limit --recovery-limit "},
    {"check", replay_check, " --results --shell --image "},
    {device::kTokenCommand, replay_device, " --results --shell --image "},
    {kernel::kTokenCommand, replay_kernel, " --results --shell --image "},
    {kConformCommand, replay_conform, " --results "},
    {"threads", replay_threads, " --program --from --recovery-limit "},
    {"cxl", replay_cxl, " --program "},
};

tl::expected<int, Failure> replay(const ReplayOptions& options, const CLI::App& command) {
  const auto found = find_token(options.what);
  if (!found) return tl::unexpected(found.error());
  for (const Replayer& replayer : kReplayers) {
    if (replayer.command != found->token.command) continue;
    for (const char* option :
         {"--program", "--results", "--from", "--main-limit", "--recovery-limit", "--shell", "--image"}) {
      if (command.count(option) > 0 && replayer.options.find(fmt::format(" {} ", option)) == std::string_view::npos)
        return wrong_use(fmt::format("{} is not for tokens of crashcut {}.", option, replayer.command));
    }
    return replayer.replay(options, *found);
  }
  return wrong_use(fmt::format("This is a token of crashcut {}, which this version does not have.",
                               result::printable(found->token.command)));
}

}  // namespace

void add_replay_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App* command = app.add_subcommand("replay", "run one recovery, or one schedule, again, by its token");
  command->add_option("what", options->what, "a token, or a directory of results, copied from anywhere")
      ->required()
      ->type_name("TOKEN|DIR");
  command->add_option("--program", options->program, "the program, where it is not found by its name")
      ->type_name("PATH");
  command->add_option("--results", options->results, "of crashcut check: the directory of the results, likewise")
      ->type_name("DIR");
  command->add_option("--from", options->common.from_directory, "the tree that the disk starts as, likewise")
      ->type_name("DIR");
  command->add_flag("--shell", options->shell, "of crashcut check: open a shell in the crashed disk");
  command
      ->add_option("--image", options->image_directory,
                   "of crashcut check: write the crashed disk to DIR as a plain tree; with --fs or --device, to a file")
      ->type_name("DIR");
  command->add_flag("--print", options->print, "tell all of it: operations, choices, calls, output");
  add_main_limit(*command, options->common);
  add_recovery_limit(*command, options->common);
  add_memory_limit(*command);
  command->formatter(usage_formatter("crashcut replay [options] TOKEN|DIR"));
  command->footer(
      "A token holds no path but the program's name: that is looked for beside the token, in the current\n"
      "directory and in PATH. A program that does other things than when the token was made is refused.\n\n"
      "Exit codes: 0 no violation this time, 1 violation, 2 wrong use, 4 crashcut's own failure");
  command->callback([command, options, &exit_code] {
    const auto code = replay(*options, *command);
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
