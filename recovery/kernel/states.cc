#include "recovery/kernel/states.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>

#include "recovery/kernel/crashed_disk.h"
#include "recovery/kernel/images.h"
#include "recovery/kernel/record.h"
#include "recovery/kernel/runner.h"

namespace crashcut::kernel {
namespace {

using search::Json;

std::string without_newline(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// PID 1 of the sandbox.
Json look_at_all(const sandbox::Inside& inside, const mounted::RecordPlan& program, const DiskPlan& disk,
                 const ImageSet& images, const Looking& looking) {
  const auto failed = [](const std::string& sentence) { return Json{{"failure", sentence}, {"is_users", false}}; };
  auto crashed =
      CrashedDisk::make(disk.filesystem, images.base(), mounted::disk_of(program.directory), disk.drive.sector_bytes);
  if (!crashed) return failed(crashed.error());
  auto runner = KernelRunner::start({.inside = inside,
                                     .results = program.directory,
                                     .command = looking.command,
                                     .limit = std::chrono::seconds(30),
                                     .core = {}});
  if (!runner) return failed(runner.error());
  Json states = Json::object();
  std::string failure;
  images.visit([&](const ImageSet::Chosen& chosen) {
    if (!failure.empty()) return;
    (*crashed)->load(chosen.run->blocks_of(*chosen.image), chosen.run->block_bytes());
    std::string shown;
    if (const int error = (*crashed)->mount(looking.is_read_only); error != 0) {
      shown = fmt::format("the kernel refuses to mount it: {}", std::strerror(error));
    } else {
      const mounted::CommandResult result = (*runner)->run(chosen.run->marks_of(*chosen.image));
      if ((*crashed)->unmount() != 0) failure = "An image could not be unmounted.";
      if (!result.failure.empty()) failure = result.failure;
      if (result.finding == mounted::Finding::kAssumedAway) return;
      constexpr int kNotRun = 125;  // workloads/conform/recover.c, env
      if (result.code >= kNotRun || (result.finding != mounted::Finding::kFine && !looking.may_fail))
        failure = fmt::format("{} failed on an image: {}", looking.command.words[0], result.errors);
      shown = without_newline(result.output);
    }
    if (!states.contains(shown)) states[shown] = chosen.how;
  });
  if (!failure.empty()) return failed(failure);
  return {{"states", states}};
}

}  // namespace

tl::expected<KernelStates, Failure> states_of_runs(const mounted::RecordPlan& program, const DiskPlan& disk,
                                                   const Looking& looking, std::uint64_t seed) {
  const auto images = ImageSet::open(program.directory, disk, seed);
  if (!images) return tl::unexpected(images.error());
  const auto answer = in_sandbox(program.directory, [&](const sandbox::Inside& inside) {
    return look_at_all(inside, program, disk, **images, looking);
  });
  if (!answer) return tl::unexpected(answer.error());
  KernelStates found;
  found.images = (*images)->image_count();
  found.chosen = (*images)->chosen_count();
  for (const auto& [shown, how] : answer->at("states").items()) found.states[shown] = how.get<std::string>();
  return found;
}

tl::expected<KernelStates, Failure> find_states(const mounted::RecordPlan& program, const DiskPlan& disk,
                                                const Looking& looking, std::uint64_t seed) {
  for (std::uint32_t run = 1; unlink(run_of(program.directory, run).c_str()) == 0; ++run) {
  }
  const std::vector<mounted::Question> no_questions;
  const mounted::Histories no_histories;
  const auto runs = record_runs(program, disk, {no_questions, no_histories}, seed, [] { return false; });
  if (!runs) return tl::unexpected(runs.error());
  return states_of_runs(program, disk, looking, seed);
}

}  // namespace crashcut::kernel
