#include "recovery/device/runner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "recovery/device/record.h"

namespace crashcut::device {

DeviceRunner::DeviceRunner(const Setup& setup)
    : setup_(setup), idle_({.bytes = setup.bytes, .sector_bytes = setup.sector_bytes}) {
  const std::string disk = mounted::disk_of(setup_.results);
  environment_ = mounted::checker_environment(disk, disk + "/.crashcut");
  environment_.push_back(fmt::format("{}={}", kDeviceVariable, device_of(setup_.results)));
}

tl::expected<std::unique_ptr<DeviceRunner>, std::string> DeviceRunner::start(const Setup& setup) {
  std::unique_ptr<DeviceRunner> runner(new DeviceRunner(setup));
  auto mount = blocklayer::DeviceMount::start(
      {.directory = mounted::disk_of(setup.results), .allow_others = geteuid() == 0}, runner->idle_);
  if (!mount) return tl::unexpected(mount.error());
  runner->mount_ = std::move(*mount);
  auto watch = sandbox::SyscallWatch::start(runner->handlers());
  if (!watch) return tl::unexpected(watch.error());
  runner->watch_ = std::move(*watch);
  return runner;
}

sandbox::SyscallHandlers DeviceRunner::handlers() {
  sandbox::SyscallHandlers handlers;
  handlers.on_reached = [this](const sandbox::Caller&, std::string_view text) {
    bool answer = false;
    if (const auto* reached = reached_.load())
      mount_->between_requests([&] { answer = (*reached)(std::string(text)); });
    return sandbox::Answer::with(answer ? 1 : 0);
  };
  handlers.on_assume = [this](const sandbox::Caller&) {
    assumed_away_ = true;
    return sandbox::Answer::with(0);
  };
  return handlers;
}

DeviceRunner& DeviceRunner::open_to(const mounted::CommandLine& command) {
  setup_.command = command;
  setup_.limit = {};
  setup_.with_terminal = true;
  return *this;
}

mounted::CommandResult DeviceRunner::run(CheckedDevice& device, const std::vector<std::string>& certain,
                                         const std::function<bool(const std::string&)>& reached) {
  mount_->show(device);
  reached_ = &reached;
  assumed_away_ = false;
  sandbox::Command command;
  command.argv = mounted::argv_of(setup_.command);
  command.environment = environment_;
  std::string marks;
  for (const std::string& mark : certain) marks += (marks.empty() ? "" : "\n") + mark;
  command.environment.push_back("CRASHCUT_CERTAIN=" + marks);
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
  const sandbox::Outcome outcome = sandbox::run(setup_.inside, command);
  reached_ = nullptr;
  // Nothing of this state is to be reached any more.
  mount_->show(idle_);
  mounted::CommandResult result = mounted::result_of(outcome, setup_.with_terminal ? "The shell" : "The checker");
  if (assumed_away_) result.finding = mounted::Finding::kAssumedAway;
  return result;
}

}  // namespace crashcut::device
