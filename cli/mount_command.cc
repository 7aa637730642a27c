// crashcut mount and crashcut crash: a disk to work on by hand, and the plug of it.
#include <fmt/format.h>
#include <sys/stat.h>

#include <boost/filesystem.hpp>

#include "cli/bounds.h"
#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/mounted_options.h"
#include "cli/options.h"
#include "recovery/mounted/interactive.h"

namespace crashcut::cli {
namespace {

namespace fs = boost::filesystem;
using result::Failure;

struct MountOptions {
  Options common;
  std::string directory;
  std::vector<std::string> command;
};

struct CrashOptions {
  std::string directory;
  std::optional<std::uint64_t> state;
};

tl::expected<int, Failure> mount(const MountOptions& options) {
  const auto plan = make_plan(options.common);
  if (!plan) return tl::unexpected(plan.error());
  boost::system::error_code error;
  if (!fs::is_directory(options.directory, error))
    return result::wrong_use(fmt::format("{} is not a directory. Make it first.", options.directory));
  if (!fs::is_empty(options.directory, error))
    return result::wrong_use(fmt::format("{} is not empty, or a mount is there already.", options.directory));
  struct stat inside {
  }, outside{};
  if (stat(options.directory.c_str(), &inside) == 0 && stat((options.directory + "/..").c_str(), &outside) == 0 &&
      inside.st_dev != outside.st_dev) {
    return result::wrong_use(
        fmt::format("{} is a mount point already. Name another directory, or unmount it.", options.directory));
  }
  const mounted::MountPlan mount{fs::canonical(options.directory).string(), plan->from_directory, plan->model,
                                 options.command};
  const SearchSignals signals;
  const auto on_mounted = [&] {
    fmt::print("{} mounted at {}\nIn another terminal: crashcut crash {} shows what a crash could leave. {} ends it.\n",
               fusefs::describe(mount.model), mount.directory, options.directory,
               mount.command.empty() ? "Ctrl-C, or umount," : "The end of the command, or umount,");
    if (mount.command.empty())
      fmt::print("fsync is seen; sync and syncfs are not, but of a shell in it: crashcut mount {} -- bash\n",
                 options.directory);
    std::fflush(stdout);
  };
  auto served = mounted::serve_mount(mount, on_mounted, is_interrupted);
  if (!served) return tl::unexpected(served.error());
  fmt::print("unmounted\n");
  return *served;
}

tl::expected<int, Failure> crash(const CrashOptions& options) {
  if (options.state) {
    if (auto done = mounted::switch_to_state(options.directory, *options.state); !done)
      return tl::unexpected(done.error());
    fmt::print("the power is back; {} shows state {}, which is durable now\n", options.directory, *options.state);
    return 0;
  }
  const auto states = mounted::list_states(options.directory);
  if (!states) return tl::unexpected(states.error());
  fmt::print(
      "If the power went now, {} could hold, compared with now:\n\n{}\ncrashcut crash {} N pulls the plug and shows "
      "state N.\n",
      options.directory, *states, options.directory);
  return 0;
}

}  // namespace

void add_mount_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<MountOptions>();
  CLI::App* command = app.add_subcommand("mount", "mount a modelled disk at a directory, to work on it by hand");
  add_model_options(*command, options->common);
  add_memory_limit(*command);
  command->formatter(usage_formatter("crashcut mount [options] DIR [-- COMMAND ...]"));
  command->add_option("dir", options->directory, "an empty directory")->required()->type_name("DIR");
  command->prefix_command();
  command->footer(
      "Stays in the foreground: until COMMAND ends, which is run in DIR, or without one until it is\n"
      "unmounted or interrupted. fsync is seen of every program; sync, syncfs and stores to shared\n"
      "mappings that are not written back yet only of COMMAND and what that starts:\n"
      "crashcut mount DIR -- bash\n\n"
      "Exit codes: COMMAND's own, 0 unmounted without one, 2 wrong use, 4 crashcut's own failure");
  command->callback([options, command, &exit_code] {
    if (!command->remaining().empty()) options->command = program_words(*command, "command");
    const auto code = mount(*options);
    exit_code = code ? *code : report_failure(code.error());
  });
}

void add_crash_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CrashOptions>();
  CLI::App* command =
      app.add_subcommand("crash", "pull the plug of a disk that crashcut mount serves: list the states, or show one");
  command->formatter(usage_formatter("crashcut crash DIR [N]"));
  command->add_option("dir", options->directory, "where the disk is mounted")->required()->type_name("DIR");
  command->add_option("state", options->state, "a number of the list")->type_name("N");
  command->footer("Exit codes: 0 done, 2 wrong use, 4 crashcut's own failure");
  command->callback([options, &exit_code] {
    const auto code = crash(*options);
    exit_code = code ? *code : report_failure(code.error());
  });
}

}  // namespace crashcut::cli
