#include "recovery/kernel/runner.h"

#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "recovery/kernel/plan.h"
#include "recovery/mounted/versions.h"

namespace crashcut::kernel {

KernelRunner::KernelRunner(const Setup& setup) : setup_(setup) {
  environment_ = mounted::checker_environment(mounted::disk_of(setup_.results), device_directory(setup_.results));
}

tl::expected<std::unique_ptr<KernelRunner>, std::string> KernelRunner::start(const Setup& setup) {
  // Seen in this sandbox only, so that workers do not meet there.
  if (mount("crashcut", device_directory(setup.results).c_str(), "tmpfs", 0, "") != 0)
    return tl::unexpected(fmt::format("Cannot mount a tmpfs for the checker: {}.", std::strerror(errno)));
  std::unique_ptr<KernelRunner> runner(new KernelRunner(setup));
  auto watch = sandbox::SyscallWatch::start(runner->handlers());
  if (!watch) return tl::unexpected(watch.error());
  runner->watch_ = std::move(*watch);
  return runner;
}

sandbox::SyscallHandlers KernelRunner::handlers() {
  sandbox::SyscallHandlers handlers;
  handlers.on_reached = [this](const sandbox::Caller&, std::string_view text) {
    return sandbox::Answer::with(std::find(marks_.begin(), marks_.end(), text) != marks_.end() ? 1 : 0);
  };
  handlers.on_assume = [this](const sandbox::Caller&) {
    assumed_away_ = true;
    return sandbox::Answer::with(0);
  };
  return handlers;
}

mounted::CommandResult KernelRunner::run(const std::vector<std::string>& marks) {
  marks_ = marks;
  assumed_away_ = false;
  const std::string files = device_directory(setup_.results);
  {
    std::ofstream promises(files + "/marks"), lines(files + "/stdout");
    for (const std::string& mark : marks) {
      if (mounted::is_promise(mark)) {
        promises << mark << '\n';
      } else {
        lines << mark.substr(mark.find(": ") + 2) << '\n';
      }
    }
  }
  sandbox::Command command;
  command.argv = mounted::argv_of(setup_.command);
  command.environment = environment_;
  command.environment.push_back(fmt::format("CRASHCUT_CERTAIN={}", fmt::join(marks, "\n")));
  command.directory = mounted::disk_of(setup_.results);
  if (setup_.limit.count() > 0) command.limit = setup_.limit;
  command.stop = setup_.stop;
  command.core = setup_.core;
  if (setup_.with_terminal) {
    command.with_terminal = true;
    command.stdin_fd = STDIN_FILENO;
    command.stdout_fd = STDOUT_FILENO;
    command.stderr_fd = STDERR_FILENO;
  }
  mounted::CommandResult result =
      mounted::result_of(sandbox::run(setup_.inside, command), setup_.with_terminal ? "The shell" : "The checker");
  if (assumed_away_) result.finding = mounted::Finding::kAssumedAway;
  return result;
}

}  // namespace crashcut::kernel
