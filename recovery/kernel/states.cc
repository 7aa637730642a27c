#include "recovery/kernel/states.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>

#include "recovery/kernel/crashed_disk.h"
#include "recovery/kernel/images.h"
#include "recovery/kernel/record.h"
#include "recovery/sandbox/command.h"

namespace crashcut::kernel {
namespace {

using search::Json;

std::string without_newline(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// PID 1 of the sandbox.
Json look_at_all(const sandbox::Inside& inside, const mounted::RecordPlan& program, const DiskPlan& disk,
                 const ImageSet& images, const std::vector<std::string>& looker) {
  const std::string directory = mounted::disk_of(program.directory);
  auto crashed = CrashedDisk::make(disk.filesystem, images.base(), directory, disk.drive.sector_bytes);
  if (!crashed) return {{"failure", crashed.error()}, {"is_users", false}};
  sandbox::Command command;
  command.argv = looker;
  command.directory = directory;
  command.environment = sandbox::environment_without({});
  Json states = Json::object();
  std::string failure;
  images.visit([&](const ImageSet::Chosen& chosen) {
    if (!failure.empty()) return;
    (*crashed)->load(chosen.run->blocks_of(*chosen.image), chosen.run->block_bytes());
    std::string shown;
    if (const int error = (*crashed)->mount(true); error != 0) {
      shown = fmt::format("the kernel refuses to mount it: {}", std::strerror(error));
    } else {
      const sandbox::Outcome outcome = sandbox::run(inside, command);
      if (outcome.end != sandbox::Outcome::End::kExited || outcome.code != 0)
        failure = fmt::format("{} failed on an image: {}{}", looker[0], outcome.why, outcome.err);
      shown = without_newline(outcome.out);
      if ((*crashed)->unmount() != 0) failure = "An image could not be unmounted.";
    }
    if (!states.contains(shown)) states[shown] = chosen.how;
  });
  if (!failure.empty()) return {{"failure", failure}, {"is_users", false}};
  return {{"states", states}};
}

}  // namespace

tl::expected<KernelStates, Failure> find_states(const mounted::RecordPlan& program, const DiskPlan& disk,
                                                const std::vector<std::string>& looker, std::uint64_t seed) {
  for (std::uint32_t run = 1; unlink(run_of(program.directory, run).c_str()) == 0; ++run) {
  }
  const std::vector<mounted::Question> no_questions;
  const mounted::Histories no_histories;
  const auto runs = record_runs(program, disk, {no_questions, no_histories}, seed, [] { return false; });
  if (!runs) return tl::unexpected(runs.error());
  const auto images = ImageSet::open(program.directory, disk, seed);
  if (!images) return tl::unexpected(images.error());
  const auto answer = in_sandbox(program.directory, [&](const sandbox::Inside& inside) {
    return look_at_all(inside, program, disk, **images, looker);
  });
  if (!answer) return tl::unexpected(answer.error());
  KernelStates found;
  found.images = (*images)->image_count();
  found.runs = *runs;
  for (const auto& [shown, how] : answer->at("states").items()) found.states[shown] = how.get<std::string>();
  return found;
}

}  // namespace crashcut::kernel
