// The user's checker on a device of a crashcut mount, in a sandbox.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recovery/device/devices.h"
#include "recovery/mounted/command_runner.h"

namespace crashcut::device {

class DeviceRunner {
 public:
  struct Setup {
    const sandbox::Inside& inside;
    std::string results;  // the directory of the results: the device is in its disk/
    mounted::CommandLine command;
    std::chrono::nanoseconds limit;
    std::uint64_t bytes;
    std::uint32_t sector_bytes;
    std::optional<int> core;
    const std::atomic<bool>* stop = nullptr;  // kills the command
    bool with_terminal = false;               // a person's
  };
  // The error is a sentence. Must be made by the thread that calls run().
  static tl::expected<std::unique_ptr<DeviceRunner>, std::string> start(const Setup& setup);

  // From now on it runs this one, for a person at the terminal and without a limit.
  DeviceRunner& open_to(const mounted::CommandLine& command);
  // `certain` are the marks that were reached whatever the command reads. `reached` asks about another one.
  mounted::CommandResult run(CheckedDevice& device, const std::vector<std::string>& certain,
                             const std::function<bool(const std::string&)>& reached);

 private:
  explicit DeviceRunner(const Setup& setup);
  sandbox::SyscallHandlers handlers();

  Setup setup_;
  CheckedDevice idle_;  // shown between two states
  std::unique_ptr<blocklayer::DeviceMount> mount_;
  std::unique_ptr<sandbox::SyscallWatch> watch_;
  std::vector<std::string> environment_;
  std::atomic<const std::function<bool(const std::string&)>*> reached_ = nullptr;
  std::atomic<bool> assumed_away_ = false;
};

}  // namespace crashcut::device
